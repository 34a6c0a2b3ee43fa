# fish completion for gpusetup. `gpusetup completions fish` prints this.
function __gpusetup_complete
    set -l words (commandline --current-process --tokenize --cut-at-cursor)
    set -l current (commandline --current-token --cut-at-cursor)
    set -l values (_GPUSETUP_COMPLETE=fish command gpusetup -- $words "$current" 2>/dev/null)
    if test (count $values) -gt 0
        printf '%s\n' $values
    else
        __fish_complete_path "$current"
    end
end
complete --command gpusetup --no-files --keep-order --arguments '(__gpusetup_complete)'
