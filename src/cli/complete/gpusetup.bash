# bash completion for gpusetup. `gpusetup completions bash` prints this.
_gpusetup() {
    mapfile -t COMPREPLY < <(
        _GPUSETUP_COMPLETE=bash command gpusetup -- "${COMP_LINE:0:COMP_POINT}" "$COMP_WORDBREAKS" 2>/dev/null
    )
}
# Without an answer bash completes files.
complete -o bashdefault -o default -o nosort -F _gpusetup gpusetup
