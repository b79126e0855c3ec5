// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Reads the tables of command_table.hpp from CLI11. CLI11 has no list of an option's words that all options share, so
/// they are read from what its help shows:
///
///     stop|restart                        the name of the value
///     Which benchmark:\nfirst: help       lines of the help
///     Device ... (auto, cuda or gpu)      the end of the help

#include "runtime/cli/command_table.hpp"

#include <CLI/CLI.hpp>
#include <regex>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace orchard::command_line {
namespace {

/// Splits "Which benchmark:\nfirst: help\nsecond: help" into `help` and `choices`; any other text is the help alone.
void read_help(const std::string& description, argument_info& into) {
    static const std::regex line_of_choice("([A-Za-z0-9_-]+): (.*)");
    const std::vector<std::string> lines = absl::StrSplit(description, '\n');
    into.help = lines.front();
    for (std::size_t i = 1; i < lines.size(); ++i) {
        std::smatch parts;
        if (std::regex_match(lines[i], parts, line_of_choice)) {
            into.choices.push_back({parts[1], parts[2]});
        } else {
            absl::StrAppend(&into.help, " ", lines[i]);
        }
    }
}

/// Adds the words of "stop|restart", or those at the end of a help such as "Level (off, detect or guard)".
void read_words(argument_info& into) {
    static const std::regex list_of_words(R"(.*\(([A-Za-z0-9_]+(?:, [A-Za-z0-9_]+)* or [A-Za-z0-9_]+)\))");
    std::string words = into.value.find('|') != std::string::npos ? into.value : "";
    std::smatch parts;
    if (words.empty() && into.choices.empty() && std::regex_match(into.help, parts, list_of_words)) {
        words = absl::StrReplaceAll(parts[1].str(), {{", ", "|"}, {" or ", "|"}});
    }
    for (const std::string& word : std::vector<std::string>(absl::StrSplit(words, '|', absl::SkipEmpty()))) {
        into.choices.push_back({word, ""});
    }
}

argument_info argument_of(const CLI::Option& option) {
    argument_info info;
    for (const std::string& name : option.get_snames()) {
        info.names.push_back("-" + name);
    }
    for (const std::string& name : option.get_lnames()) {
        info.names.push_back("--" + name);
    }
    if (option.get_positional()) {
        info.names = {option.get_name(true)};
    }
    if (option.get_items_expected_max() > 0) {
        // "[FILE]" says what `value_optional` says, too.
        info.value = absl::StrReplaceAll(option.get_type_name(), {{"[", ""}, {"]", ""}});
        info.value_optional = option.get_items_expected_min() == 0;
    }
    info.required = option.get_required();
    info.preset = option.get_default_str();
    info.group = option.get_group();
    read_help(option.get_description(), info);
    // A switch takes words behind "=" alone, which nobody needs to be offered.
    if (!info.value.empty()) {
        read_words(info);
    }
    return info;
}

command_info table_of(const CLI::App& app) {
    command_info command{app.get_name(), app.get_description(), {}, {}};
    for (const CLI::Option* option : app.get_options()) {
        (option->get_positional() ? command.positionals : command.options).push_back(argument_of(*option));
    }
    return command;
}

}  // namespace

command_info program_table(const CLI::App& program) { return table_of(program); }

std::vector<command_info> command_table(const CLI::App& program) {
    std::vector<command_info> commands;
    for (const CLI::App* command :
         program.get_subcommands([](const CLI::App* each) { return !each->get_group().empty(); })) {
        commands.push_back(table_of(*command));
    }
    return commands;
}

}  // namespace orchard::command_line
