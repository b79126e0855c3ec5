// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Writes the completions. Both scripts look for the command among the words before the cursor:
///
///     orchard <TAB>                   commands and the program's options
///     orchard walk --<TAB>            the command's options
///     orchard walk --device <TAB>     the words that the option takes; paths for a file or a folder
///     orchard bench <TAB>             the words that the positional argument takes

#include "runtime/cli/completion.hpp"

#include <CLI/CLI.hpp>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "runtime/cli/command_table.hpp"

namespace orchard::command_line {
namespace {

std::string words_of(const std::vector<choice>& choices) {
    return absl::StrJoin(choices, " ", [](std::string* out, const choice& c) { absl::StrAppend(out, c.word); });
}

std::string names_of(const std::vector<argument_info>& options) {
    std::string all;
    for (const argument_info& a : options) {
        absl::StrAppend(&all, all.empty() ? "" : " ", absl::StrJoin(a.names, " "));
    }
    return all;
}

/// Returns what bash offers for a value; empty: nothing, so that the options are offered.
std::string bash_value(const argument_info& a) {
    if (!a.choices.empty()) {
        return absl::StrCat("words='", words_of(a.choices), "'");
    }
    return a.is_file() ? "kind=-f" : a.is_folder() ? "kind=-d" : "";
}

/// Returns the cases "demo:--json|walk:--json" and what bash offers there. An option with a value of any other kind
/// gets nothing: neither options nor files are right there.
std::string bash_values(const std::vector<command_info>& commands) {
    std::map<std::string, std::vector<std::string>> patterns;  // by what is offered
    for (const command_info& command : commands) {
        for (const argument_info& a : command.options) {
            for (const std::string& name : a.names) {
                if (!a.value.empty()) {
                    const std::string value = bash_value(a);
                    patterns[value.empty() ? "return" : value].push_back(absl::StrCat(command.name, ":", name));
                }
            }
        }
    }
    std::string cases;
    for (const auto& [value, where] : patterns) {
        absl::StrAppend(&cases, "        ", absl::StrJoin(where, "|"), ") ", value, " ;;\n");
    }
    return cases;
}

/// Returns the cases "walk" with the command's options, and the words or files that it takes.
std::string bash_commands(const std::vector<command_info>& commands) {
    std::string cases;
    for (const command_info& command : commands) {
        absl::StrAppend(&cases, "            ", command.name, ") options='", names_of(command.options), "'");
        for (const argument_info& a : command.positionals) {
            const std::string value = bash_value(a);
            absl::StrAppend(&cases, value.empty() ? "" : "; ", value);
        }
        absl::StrAppend(&cases, " ;;\n");
    }
    return cases;
}

/// Returns text between single quotes of zsh, where a colon or a bracket would end it.
std::string zsh_help(const std::string& text) {
    return absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"[", "\\["}, {"]", "\\]"}, {":", "\\:"}, {"'", "'\\''"}});
}

/// Returns ":NAME:(words)", the part of a specification that is about a value.
std::string zsh_value(const argument_info& a, const std::string& name) {
    std::string action;
    if (!a.choices.empty()) {
        action = absl::StrCat("(", words_of(a.choices), ")");
    } else if (a.is_file()) {
        action = "_files";
    } else if (a.is_folder()) {
        action = "_files -/";
    }
    return absl::StrCat(zsh_help(name), ":", action);
}

/// Returns the arguments of `_arguments`, one a line.
std::string zsh_arguments(const command_info& command, const std::string& indent) {
    std::string lines;
    for (const argument_info& a : command.options) {
        for (const std::string& name : a.names) {
            // "*": it may be given again, as the program allows for most options; "=": the value may follow a "=".
            absl::StrAppend(
                &lines, indent, "'*", name, a.value.empty() || name.size() == 2 ? "" : "=", "[", zsh_help(a.help), "]",
                a.value.empty() ? "" : absl::StrCat(a.value_optional ? "::" : ":", zsh_value(a, a.value)), "' \\\n");
        }
    }
    for (const argument_info& a : command.positionals) {
        absl::StrAppend(&lines, indent, "'", a.required ? ":" : "::", zsh_value(a, a.names.front()), "' \\\n");
    }
    return lines;
}

}  // namespace

std::string bash_completion(const CLI::App& program) {
    const std::vector<command_info> commands = command_table(program);
    const std::string names =
        absl::StrJoin(commands, "|", [](std::string* out, const command_info& c) { absl::StrAppend(out, c.name); });
    return absl::StrCat(R"(# Completion of `orchard` in bash. Made by `orchard generate bash`.
_orchard() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    local command='' options='' words='' kind='' i
    # Bash makes a word of its own of the "=" in --option=value.
    if [[ $word == = ]]; then
        word=''
    elif [[ $before == = ]]; then
        before=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    for ((i = 1; i < COMP_CWORD; ++i)); do
        case ${COMP_WORDS[i]} in
            )",
                        names, R"()
                command=${COMP_WORDS[i]}
                break
                ;;
        esac
    done
    COMPREPLY=()
    case $command:$before in
)",
                        bash_values(commands), R"(        *)
            case $command in
                '') options=')",
                        names_of(program_table(program).options), "'; words='",
                        absl::StrReplaceAll(names, {{"|", " "}}), "' ;;\n", bash_commands(commands), R"(            esac
            ;;
    esac
    if [[ $word == -* ]]; then
        words=$options
        kind=''
    fi
    if [[ -n $kind ]]; then
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen "$kind" -- "$word")
    else
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
    fi
}
complete -F _orchard orchard
)");
}

std::string zsh_completion(const CLI::App& program) {
    const std::vector<command_info> commands = command_table(program);
    std::string text = absl::StrCat(R"(#compdef orchard
# Completion of `orchard` in zsh. Made by `orchard generate zsh`.
_orchard() {
    local curcontext=$curcontext state line
    local -a commands
    typeset -A opt_args
    _arguments -C \
)",
                                    zsh_arguments(program_table(program), "        "), R"(        ':command:->command' \
        '*::argument:->argument'
    case $state in
        command)
            commands=(
)");
    for (const command_info& c : commands) {
        absl::StrAppend(&text, "                '", c.name, ":", zsh_help(c.help), "'\n");
    }
    absl::StrAppend(&text, R"(            )
            _describe command commands
            ;;
        argument)
            case $line[1] in
)");
    for (const command_info& c : commands) {
        absl::StrAppend(&text, "                ", c.name, ")\n                    _arguments \\\n",
                        zsh_arguments(c, "                        "), "                        && return\n",
                        "                    ;;\n");
    }
    return absl::StrCat(text, R"(            esac
            ;;
    esac
}
_orchard "$@"
)");
}

}  // namespace orchard::command_line
