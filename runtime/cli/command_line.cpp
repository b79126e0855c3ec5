// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The command line of the program `orchard`; command_line.hpp has the interface and the exit codes.
///
///     run
///       sorted_subcommands     registered before `main`, and those of runtime/ itself
///       declare                of every subcommand: its flags
///       parse                  CLI11; --help and --version end here
///         report                 a wrong command line: one line on standard error
///           describe_extra         the unknown word, with the nearest known one, if any is near
///       run_subcommand         `run` of the one that was chosen
///       flushed                standard output must have been written

#include "runtime/cli/command_line.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "runtime/cli/built_in_commands.hpp"
#include "runtime/cli/help_formatter.hpp"
#include "runtime/machine/machine_info.hpp"
#include "runtime/machine/version.hpp"
#include "runtime/nvtx/domain.hpp"
#include "runtime/nvtx/launch_phases.hpp"
#include "runtime/options/nearest.hpp"

namespace orchard::command_line {
namespace {

// The exit codes of errors: of the user's input, and of the machine or the program.
constexpr int bad_input = 2;
constexpr int failed = 1;

// The commit that the program was built from; `run` sets it.
std::string_view built_from = "unknown";

std::vector<subcommand (*)()>& registered() {
    static std::vector<subcommand (*)()> all;  // local to a function, so that it exists before any registrar
    return all;
}

/// Makes all subcommands, those of runtime/ too, and returns them sorted by name: the static objects of several files
/// are created in an unspecified order. Names are unique, or `run` reports an error.
std::vector<subcommand> sorted_subcommands() {
    std::vector<subcommand> all{generate_command(), info_command(), options_command()};
    for (const auto make : registered()) {
        all.push_back(make());
    }
    std::ranges::sort(all, {}, &subcommand::name);
    return all;
}

/// Returns `text` on one line. Text that a user typed or that a library reports may contain any character.
std::string one_line(absl::string_view text) {
    std::string line;
    for (const char c : text) {
        // Bytes from 0x80 on are part of a character in UTF-8, and are kept.
        const bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
        absl::StrAppend(&line, control ? absl::CEscape(absl::string_view(&c, 1)) : std::string(1, c));
    }
    return line;
}

/// Prints the one line of a wrong command line. Returns the exit code.
/// @param command  "orchard" or "orchard info": the command whose help has the answer
int reject(absl::string_view command, absl::string_view what) {
    std::cerr << absl::StrFormat("%s: %s; run `%s --help`\n", command, one_line(what), command);
    return bad_input;
}

/// Returns true for "-x" and "--name"; false for "-", which usually names the standard input.
bool is_flag(const std::string& argument) { return argument.size() > 1 && argument[0] == '-'; }

/// Return the names that a user could have meant: the long flags with their dashes, or the subcommands.
std::vector<std::string> flags_of(const CLI::App& app) {
    std::vector<std::string> names;
    for (const CLI::Option* option : app.get_options()) {
        for (const std::string& name : option->get_lnames()) {
            names.push_back("--" + name);
        }
    }
    return names;
}

std::vector<std::string> subcommands_of(const CLI::App& app) {
    std::vector<std::string> names;
    // With a filter, CLI11 returns the subcommands that are declared; without one, those that were parsed.
    for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
        names.push_back(sub->get_name());
    }
    return names;
}

/// Returns the message about an argument that no subcommand takes: an unknown flag, an unknown subcommand, or a word
/// that belongs to no flag.
std::string describe_extra(const CLI::App& app, const std::string& argument) {
    if (is_flag(argument)) {
        // Without the value in "--name=value", which would count as a difference.
        const std::string name = argument.substr(0, argument.find('='));
        return absl::StrFormat("unknown option %s%s", argument, detail::suggestion(name, flags_of(app)));
    }
    const std::vector<std::string> names = subcommands_of(app);
    if (!names.empty()) {
        return absl::StrFormat("unknown subcommand \"%s\"%s", argument, detail::suggestion(argument, names));
    }
    return absl::StrFormat("unexpected argument \"%s\"; leave it out, or write it after the option that it belongs to",
                           argument);
}

/// Returns the subcommand that was being parsed, or the program itself if the command line names none. At most one
/// subcommand is parsed (`require_subcommand` in `run`).
CLI::App& current(CLI::App& app) {
    const std::vector<CLI::App*> parsed = app.get_subcommands();
    return parsed.empty() ? app : *parsed.front();
}

/// Returns the command as a user types it, for messages.
std::string command_of(const CLI::App& app) {
    return app.get_parent() == nullptr ? "orchard" : absl::StrCat("orchard ", app.get_name());
}

/// Prints one line for a parse error. If an unknown flag is reported together with something missing, the flag is the
/// cause.
int report(CLI::App& app, const CLI::ParseError& error) {
    const bool extra = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
    const bool missing = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
    // Words that CLI11 could not place may have stayed with the program or with the subcommand. If both are the same,
    // the second round finds nothing new.
    for (CLI::App* at : {&app, &current(app)}) {
        const std::vector<std::string> remaining = at->remaining();
        if (!remaining.empty() && (extra || (missing && is_flag(remaining.front())))) {
            return reject(command_of(*at), describe_extra(*at, remaining.front()));
        }
    }
    // Any other error has a text of CLI11 or of an option's callback that names flag and value.
    return reject(command_of(current(app)), error.what());
}

/// Returns true if one of the arguments is --help or -h, wherever it stands.
bool asks_for_help(int argc, const char* const* argv) {
    return std::any_of(argv + std::min(argc, 1), argv + argc,
                       [](const std::string_view argument) { return argument == "--help" || argument == "-h"; });
}

/// Parses the command line. Returns -1 if a subcommand is to run, otherwise the exit code.
int parse(CLI::App& app, int argc, const char* const* argv) {
    try {
        app.parse(argc, argv);
        return -1;
    } catch (const CLI::CallForHelp&) {
        std::cout << app.help();
        return 0;
    } catch (const CLI::CallForVersion& version) {
        std::cout << version.what() << '\n';
        return 0;
    } catch (const CLI::ParseError& error) {
        // CLI11 checks values before it handles --help; --help takes precedence here.
        if (asks_for_help(argc, argv) && dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr) {
            std::cout << app.help();
            return 0;
        }
        return report(app, error);
    }
}

/// Runs the chosen subcommand and returns its exit code; rejects a command line without one. The name is always found:
/// CLI11 knows no other subcommands than those in `all`.
int run_subcommand(CLI::App& app, const std::vector<subcommand>& all) {
    const CLI::App& chosen = current(app);
    if (&chosen == &app) {
        return reject("orchard", "no subcommand given; name one, such as `orchard info`");
    }
    const auto command = std::ranges::find(all, chosen.get_name(), &subcommand::name);
    return command->run();
}

/// Writes out the rest of standard output. Returns `code`, or `failed` if the output could not be written, as on a full
/// disk: a script must not take an incomplete output for the whole. An error of the subcommand keeps its own code.
int flushed(int code) {
    std::cout.flush();
    if (!std::cout) {
        std::cerr << "orchard: standard output could not be written; free space, or redirect it elsewhere\n";
        return code == 0 ? failed : code;
    }
    return code;
}

}  // namespace

/// Runs before `main`, on one thread.
registrar::registrar(subcommand (*make)()) { registered().push_back(make); }

int run(int argc, const char* const* argv, std::string_view commit) {
    built_from = commit;
    nvtx::mark_launches();
    const std::vector<subcommand> all = sorted_subcommands();
    // Two files that register one name are an error of the build, found at the first start.
    const auto twin = std::ranges::adjacent_find(all, {}, &subcommand::name);
    if (twin != all.end()) {
        std::cerr << absl::StrFormat("orchard: the subcommand %s is registered twice; rename one\n", twin->name);
        return failed;
    }
    CLI::App app("Orchard: a dynamic memory manager for NVIDIA GPUs", "orchard");
    app.set_version_flag("--version",
                         absl::StrFormat("orchard %s (%s; %s)", std::string(version_text), cuda_support(),
                                         std::string(nvtx::description())),
                         "Print the version and what this build supports, and exit");
    app.formatter(std::make_shared<help_formatter>());  // the subcommands inherit it
    // 0 as well, so that the message about a missing one is this file's (`run_subcommand`).
    app.require_subcommand(0, 1);
    for (const subcommand& command : all) {
        CLI::App* sub = app.add_subcommand(command.name, command.help);
        sub->group(command.group);
        if (command.declare) {
            command.declare(*sub);
        }
    }
    // `all` and `app` live until the end: the callbacks of flags refer to variables of the subcommands.
    const int parsed = parse(app, argc, argv);
    return flushed(parsed >= 0 ? parsed : run_subcommand(app, all));
}

std::string_view commit() { return built_from; }

/// Read from the system, since the commands that need it do not get `argc` and `argv`. Empty if the system does not
/// tell. Arguments that are empty are left out, and no argument is quoted.
std::string typed() {
    std::ifstream file("/proc/self/cmdline", std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)), {});
    return absl::StrJoin(absl::StrSplit(bytes, '\0', absl::SkipEmpty()), " ");
}

/// On standard error, so that a script gets the same output with and without warnings.
void warn(const std::vector<std::string>& messages) {
    for (const std::string& message : messages) {
        std::cerr << absl::StrFormat("orchard: warning: %s\n", one_line(message));
    }
}

/// The code of the status decides, so that a script can tell a mistake in the command from a failure.
int exit_code(const absl::Status& status) {
    if (status.ok()) {
        return 0;
    }
    std::cerr << absl::StrFormat("orchard: %s\n", one_line(status.message()));
    return absl::IsInvalidArgument(status) || absl::IsNotFound(status) || absl::IsFailedPrecondition(status) ||
                   absl::IsOutOfRange(status) || absl::IsDataLoss(status)
               ? bad_input
               : failed;
}

}  // namespace orchard::command_line
