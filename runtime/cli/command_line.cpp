// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include "runtime/cli/command_line.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "runtime/cli/built_in_commands.hpp"
#include "runtime/machine/machine_info.hpp"
#include "runtime/machine/version.hpp"
#include "runtime/options/nearest.hpp"

namespace orchard::command_line {
namespace {

constexpr int bad_input = 2;
constexpr int failed = 1;

std::vector<subcommand>& registered() {
    static std::vector<subcommand> all;  // local to a function, so that it exists before any registrar
    return all;
}

/// Sorted by name, because the static objects of several files are created in an unspecified order. Names are unique.
std::vector<subcommand> sorted_subcommands() {
    std::vector<subcommand> all = registered();
    all.push_back(info_command());
    all.push_back(options_command());
    std::ranges::sort(all, {}, &subcommand::name);
    return all;
}

/// Returns `text` on one line. Text that a user typed or that a library reports may contain any character.
std::string one_line(absl::string_view text) {
    std::string line;
    for (const char c : text) {
        const bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
        absl::StrAppend(&line, control ? absl::CEscape(absl::string_view(&c, 1)) : std::string(1, c));
    }
    return line;
}

int reject(absl::string_view command, absl::string_view what) {
    std::cerr << absl::StrFormat("%s: %s; run `%s --help`\n", command, one_line(what), command);
    return bad_input;
}

bool is_flag(const std::string& argument) { return argument.size() > 1 && argument[0] == '-'; }

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
    for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
        names.push_back(sub->get_name());
    }
    return names;
}

/// Returns the message about an argument that no subcommand takes.
std::string describe_extra(const CLI::App& app, const std::string& argument) {
    if (is_flag(argument)) {
        const std::string name = argument.substr(0, argument.find('='));
        return absl::StrFormat("unknown option %s (nearest: %s)", argument, detail::nearest(name, flags_of(app)));
    }
    const std::vector<std::string> names = subcommands_of(app);
    if (!names.empty()) {
        return absl::StrFormat("unknown subcommand \"%s\" (nearest: %s)", argument, detail::nearest(argument, names));
    }
    return absl::StrFormat("unexpected argument \"%s\"; leave it out, or write it after the option that it belongs to",
                           argument);
}

/// Returns the subcommand that was being parsed, or the program itself.
CLI::App& current(CLI::App& app) {
    const std::vector<CLI::App*> parsed = app.get_subcommands();
    return parsed.empty() ? app : *parsed.front();
}

std::string command_of(const CLI::App& app) {
    return app.get_parent() == nullptr ? "orchard" : absl::StrCat("orchard ", app.get_name());
}

/// Prints one line for a parse error. If an unknown flag is reported together with something missing, the flag is the
/// cause.
int report(CLI::App& app, const CLI::ParseError& error) {
    const bool extra = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
    const bool missing = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
    for (CLI::App* at : {&app, &current(app)}) {
        const std::vector<std::string> remaining = at->remaining();
        if (!remaining.empty() && (extra || (missing && is_flag(remaining.front())))) {
            return reject(command_of(*at), describe_extra(*at, remaining.front()));
        }
    }
    return reject(command_of(current(app)), error.what());
}

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

int run_subcommand(CLI::App& app, const std::vector<subcommand>& all) {
    const CLI::App& chosen = current(app);
    if (&chosen == &app) {
        return reject("orchard", "no subcommand given; name one, such as `orchard info`");
    }
    const auto command = std::ranges::find(all, chosen.get_name(), &subcommand::name);
    return command->run();
}

int flushed(int code) {
    std::cout.flush();
    if (!std::cout) {
        std::cerr << "orchard: standard output could not be written; free space, or redirect it elsewhere\n";
        return code == 0 ? failed : code;
    }
    return code;
}

}  // namespace

registrar::registrar(subcommand command) { registered().push_back(std::move(command)); }

int run(int argc, const char* const* argv) {
    const std::vector<subcommand> all = sorted_subcommands();
    const auto twin = std::ranges::adjacent_find(all, {}, &subcommand::name);
    if (twin != all.end()) {
        std::cerr << absl::StrFormat("orchard: the subcommand %s is registered twice; rename one\n", twin->name);
        return failed;
    }
    CLI::App app("Orchard: a dynamic memory manager for NVIDIA GPUs", "orchard");
    app.set_version_flag("--version", absl::StrFormat("orchard %s (%s)", std::string(version_text), cuda_support()),
                         "Print the version and what this build supports, and exit");
    app.require_subcommand(0, 1);
    for (const subcommand& command : all) {
        CLI::App* sub = app.add_subcommand(command.name, command.help);
        sub->group(command.group);
        if (command.declare) {
            command.declare(*sub);
        }
    }
    const int parsed = parse(app, argc, argv);
    return flushed(parsed >= 0 ? parsed : run_subcommand(app, all));
}

std::string typed() {
    std::ifstream file("/proc/self/cmdline", std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)), {});
    return absl::StrJoin(absl::StrSplit(bytes, '\0', absl::SkipEmpty()), " ");
}

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
