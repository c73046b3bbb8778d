/* SPDX-License-Identifier: MPL-2.0 */
/* completion.c -- errbus completion: the few lines by which a shell asks for candidates. */
#include "clients/cli.h"
#include "clients/errbus.h"

#include <stdio.h>
#include <string.h>

static const char bash_script[] =
    "# errbus: completion for bash, made by: errbus completion bash\n"
    "_errbus() {\n"
    "    local word\n"
    "    COMPREPLY=()\n"
    "    while IFS=$'\\t' read -r word _; do\n"
    "        if [[ $word == :files ]]; then\n"
    "            compopt -o default 2>/dev/null\n"
    "        else\n"
    "            COMPREPLY+=(\"$word\")\n"
    "        fi\n"
    "    done < <(\"${COMP_WORDS[0]}\" __complete \"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null)\n"
    "}\n"
    "complete -F _errbus errbus\n";

static const char zsh_script[] =
    "#compdef errbus\n"
    "# errbus: completion for zsh, made by: errbus completion zsh\n"
    "_errbus() {\n"
    "    local line word\n"
    "    local -a candidates\n"
    "    for line in \"${(@f)$(\"${words[1]}\" __complete \"${(@)words[2,CURRENT]}\" "
    "2>/dev/null)}\"; do\n"
    "        word=${line%%$'\\t'*}\n"
    "        if [[ $word == :files ]]; then\n"
    "            _files\n"
    "        elif [[ -n $word ]]; then\n"
    "            candidates+=(\"$word:${line#*$'\\t'}\")\n"
    "        fi\n"
    "    done\n"
    "    (( ! $#candidates )) || _describe -t values errbus candidates\n"
    "}\n"
    "if [[ ${funcstack[1]-} == _errbus ]]; then _errbus \"$@\"; else compdef _errbus errbus; fi\n";

static const char fish_script[] =
    "# errbus: completion for fish, made by: errbus completion fish\n"
    "function __errbus_complete\n"
    "    set -l words (commandline -opc)\n"
    "    set -l current (commandline -ct)\n"
    "    set -l program $words[1]\n"
    "    set -e words[1]\n"
    "    for line in ($program __complete $words \"$current\" 2>/dev/null)\n"
    "        if test \"$line\" = :files\n"
    "            __fish_complete_path \"$current\"\n"
    "        else\n"
    "            echo $line\n"
    "        end\n"
    "    end\n"
    "end\n"
    "complete -c errbus -f -a '(__errbus_complete)'\n";

int completion_main(int argc, char **argv)
{
    static const struct {
        const char *shell;
        const char *script;
    } scripts[] = {{"bash", bash_script}, {"zsh", zsh_script}, {"fish", fish_script}};
    struct cli cli = {.program = "errbus completion",
                      .is_observer = true,
                      .operands = "bash|zsh|fish",
                      .summary =
                          "Prints the lines by which a shell completes the words of errbus."};
    int result = CLI_OK;
    if (!cli_start(&cli, argc, argv, NULL, 0, &result)) {
        return result;
    }
    for (size_t i = 0; cli.argc == 1 && i < sizeof scripts / sizeof scripts[0]; i++) {
        if (strcmp(cli.argv[0], scripts[i].shell) == 0) {
            fputs(scripts[i].script, stdout);
            (void)cli_flush_output(&cli, &result);
            return result;
        }
    }
    return cli_usage(&cli, "expected bash, zsh or fish%s%.100s%s", cli.argc > 0 ? ", not '" : "",
                     cli.argc > 0 ? cli.argv[0] : "", cli.argc > 0 ? "'" : "");
}
