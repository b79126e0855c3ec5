// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard generate`: prints the manual page or a completion. The build runs it for the files that are installed, so
/// that the help does not list it.

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "runtime/cli/built_in_commands.hpp"
#include "runtime/cli/completion.hpp"
#include "runtime/cli/manual.hpp"
#include "runtime/cli/output_file.hpp"

namespace orchard::command_line {
namespace {

struct generate_arguments {
    std::string what;
    std::string file;                   ///< empty: standard output
    const CLI::App* program = nullptr;  ///< lives until `run` of command_line.hpp returns
};

/// Prints the text, or writes it to the file. Errors: those of the file.
absl::Status generate(const generate_arguments& a) {
    const std::string text = a.what == "man"    ? manual_page(*a.program)
                             : a.what == "bash" ? bash_completion(*a.program)
                                                : zsh_completion(*a.program);
    if (!a.file.empty()) {
        return write_file(a.file, text);
    }
    std::cout << text;
    return absl::OkStatus();
}

}  // namespace

subcommand generate_command() {
    const auto a = std::make_shared<generate_arguments>();
    return {"generate", "Print the manual page, or the completion of a shell", "",
            [a](CLI::App& app) {
                a->program = app.get_parent();
                app.add_option("what", a->what, "man, bash or zsh")
                    ->required()
                    ->check(CLI::IsMember({"man", "bash", "zsh"}).description(""));
                app.add_option("file", a->file, "Write to this file instead of standard output")->type_name("FILE");
            },
            [a] { return exit_code(generate(*a)); }};
}

}  // namespace orchard::command_line
