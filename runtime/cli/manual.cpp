// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Writes the manual page in the macros of man(7):
///
///     .SH   a section                    .SS   a command
///     .TP   the next line is a term, the lines after it are its text
///     \fB   bold: words to type          \fI   italic: names of values

#include "runtime/cli/manual.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "runtime/cli/command_table.hpp"
#include "runtime/machine/version.hpp"

namespace orchard::command_line {
namespace {

/// The group of CLI11 for options that are a command's own. Options of another group are shared by several commands.
constexpr const char* own_group = "Options";

/// Returns text as roff prints it: a backslash and a hyphen have a meaning there, and a dot or an apostrophe at the
/// beginning of a line.
std::string escaped(const std::string& text) {
    std::string safe = absl::StrReplaceAll(text, {{"\\", "\\e"}, {"-", "\\-"}});
    return safe.empty() || (safe[0] != '.' && safe[0] != '\'') ? safe : "\\&" + safe;
}

std::string bold(const std::string& text) { return absl::StrCat("\\fB", escaped(text), "\\fR"); }
std::string italic(const std::string& text) { return absl::StrCat("\\fI", escaped(text), "\\fR"); }

/// Returns "--json [FILE]", or a positional's "[file]".
std::string usage_of(const argument_info& a) {
    if (a.names.front()[0] != '-') {
        return a.required ? italic(a.names.front()) : absl::StrCat("[", italic(a.names.front()), "]");
    }
    std::string text = absl::StrJoin(
        a.names, ", ", [](std::string* out, const std::string& name) { absl::StrAppend(out, bold(name)); });
    if (!a.value.empty()) {
        absl::StrAppend(&text, " ", a.value_optional ? absl::StrCat("[", italic(a.value), "]") : italic(a.value));
    }
    return text;
}

/// Returns the paragraph of an option or a positional argument. Words with a help of their own follow as a list.
std::string paragraph_of(const argument_info& a) {
    std::string text = absl::StrCat(".TP\n", usage_of(a), "\n", escaped(a.help));
    if (!a.preset.empty()) {
        absl::StrAppend(&text, " (default: ", escaped(a.preset), ")");
    }
    absl::StrAppend(&text, "\n");
    for (const choice& c : a.choices) {
        if (!c.help.empty()) {
            absl::StrAppend(&text, ".RS\n.TP\n", bold(c.word), "\n", escaped(c.help), "\n.RE\n");
        }
    }
    return text;
}

/// Returns the options that several commands share, each once, in the words of the first command that has it.
std::vector<argument_info> shared_options(const std::vector<command_info>& commands) {
    std::vector<argument_info> shared;
    for (const command_info& command : commands) {
        for (const argument_info& a : command.options) {
            const auto same = [&a](const argument_info& b) { return b.names == a.names; };
            if (a.group != own_group && std::ranges::none_of(shared, same)) {
                shared.push_back(a);
            }
        }
    }
    return shared;
}

/// Returns the section of a command: its usage, its help, and its options, but of the shared ones only those on which
/// it has something of its own to say.
std::string section_of(const command_info& command, const std::vector<argument_info>& shared) {
    std::string text = absl::StrCat(".SS ", bold("orchard " + command.name), " [", italic("OPTION"), "]...");
    for (const argument_info& a : command.positionals) {
        absl::StrAppend(&text, " ", usage_of(a));
    }
    absl::StrAppend(&text, "\n", escaped(command.help), ".\n");
    for (const argument_info& a : command.positionals) {
        absl::StrAppend(&text, paragraph_of(a));
    }
    bool has_shared = false;
    for (const argument_info& a : command.options) {
        const bool said = std::ranges::any_of(
            shared, [&a](const argument_info& b) { return b.names == a.names && b.help == a.help; });
        has_shared = has_shared || a.group != own_group;
        if (!said && a.names.back() != "--help") {
            absl::StrAppend(&text, paragraph_of(a));
        }
    }
    return has_shared ? absl::StrCat(text, ".PP\nAnd the options of a heap, below.\n") : text;
}

constexpr const char* environment_and_exit_status =
    R"(.SH ENVIRONMENT
Each option of a heap is also a variable: its name in capitals, with underscores, after
.BR ORCHARD_ ,
such as
.B ORCHARD_CAPACITY
for
.BR \-\-capacity .
A flag wins over the variable.
.B orchard options
prints the values that the environment gives.
.SH EXIT STATUS
.TP
.B 0
The command did what was asked, and its checks passed.
.TP
.B 1
It failed, or a check found a fault.
.TP
.B 2
The command line, the environment or an input was wrong; one line on standard error says what to do.
)";

}  // namespace

std::string manual_page(const CLI::App& program) {
    const command_info whole = program_table(program);
    const std::vector<command_info> commands = command_table(program);
    const std::vector<argument_info> shared = shared_options(commands);
    std::string text = absl::StrFormat(
        ".\\\" Made by `orchard generate man`.\n"
        ".TH ORCHARD 1 \"\" \"Orchard %s\" \"User Commands\"\n"
        ".SH NAME\norchard \\- a dynamic memory manager for NVIDIA GPUs\n"
        ".SH SYNOPSIS\n.B orchard\n.I COMMAND\n[\\fIARGUMENT\\fR]...\n"
        ".SH DESCRIPTION\n"
        "The program shows and measures the heap of the library Orchard, on a GPU or on an emulated device.\n"
        ".SH OPTIONS\n",
        std::string(version_text));
    for (const argument_info& a : whole.options) {
        absl::StrAppend(&text, paragraph_of(a));
    }
    absl::StrAppend(&text, ".SH COMMANDS\n");
    for (const command_info& command : commands) {
        absl::StrAppend(&text, section_of(command, shared));
    }
    if (!shared.empty()) {
        absl::StrAppend(&text, ".SH OPTIONS OF A HEAP\nFor the commands that create one.\n");
    }
    for (const argument_info& a : shared) {
        absl::StrAppend(&text, paragraph_of(a));
    }
    return text + environment_and_exit_status;
}

}  // namespace orchard::command_line
