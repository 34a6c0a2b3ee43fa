#compdef gpusetup
# zsh completion for gpusetup. `gpusetup completions zsh` prints this.
_gpusetup() {
    local -a values
    values=("${(@f)$(
        _GPUSETUP_COMPLETE=zsh command gpusetup -- "${(@Q)words[1,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null
    )}")
    values=(${values:#})
    if (( ${#values} )); then
        _describe -V gpusetup values
    else
        _files
    fi
}
if [[ $funcstack[1] == _gpusetup ]]; then
    _gpusetup "$@"
else
    compdef _gpusetup gpusetup
fi
