// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The commands and options of the program as plain tables, read from CLI11's definition. The manual page and the
/// completions are made from them, so that none of these can differ from what the program takes.

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace orchard::command_line {

/// A word that an option or a positional argument takes, such as the name of a benchmark.
struct choice {
    std::string word;
    std::string help;  ///< may be empty
};

/// An option, or a positional argument.
struct argument_info {
    std::vector<std::string> names;  ///< with dashes: "-h", "--help"; of a positional: its name alone
    std::string value;               ///< name of the value: "N", "FILE"; empty: it takes none
    bool value_optional = false;
    bool required = false;
    std::string help;    ///< without the lines of `choices`
    std::string preset;  ///< the default value as text; may be empty
    std::string group;
    std::vector<choice> choices;  ///< all words that it takes; empty: any

    /// Return true if the value is a path of a file or of a folder.
    [[nodiscard]] bool is_file() const { return value.find("FILE") != std::string::npos; }
    [[nodiscard]] bool is_folder() const { return value == "DIR"; }
};

/// A command, or the program itself.
struct command_info {
    std::string name;
    std::string help;
    std::vector<argument_info> options;
    std::vector<argument_info> positionals;
};

/// Returns the program, without its commands.
command_info program_table(const CLI::App& program);

/// Returns the commands of the program, by name. Hidden ones, whose group is empty, are left out.
std::vector<command_info> command_table(const CLI::App& program);

}  // namespace orchard::command_line
