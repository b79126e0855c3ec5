// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The options of a heap: `set`, the environment, the command line. An input is lines "name = value"; lines without "="
// are arguments of the command line alone. Where every line is a valid setting, all three must give the same options.

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "runtime/cli/options_cli.hpp"
#include "runtime/options/options.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/options/clean_environment.hpp"

namespace orchard::fuzz {
namespace {

struct setting {
    std::string name;
    std::string value;
};

void check_error(const absl::Status& s) {
    expect_clear(s);
    expect(absl::IsNotFound(s) || absl::IsInvalidArgument(s) || absl::IsOutOfRange(s),
           absl::StrCat("an error of its own: ", s.ToString()));
}

/// Checks options that were accepted: they are valid, and their text is read back.
void check_accepted(const options& values) {
    expect(validate(values).ok(), "options that `validate` rejects were accepted");
    options again;
    for (const option_info& o : option_table(values)) {
        const absl::Status s = set(again, o.name, o.value);
        expect(s.ok(), absl::StrCat("the text of an option is not read back: ", s.ToString()));
    }
    expect(again == values, "the text of the options gives others: " + to_text(values));
}

/// Returns the options that `set` makes of all settings; `ok` says whether all were accepted.
options by_text(const std::vector<setting>& settings, bool& ok) {
    options values;
    for (const setting& s : settings) {
        const options before = values;
        if (const absl::Status status = set(values, s.name, s.value); !status.ok()) {
            check_error(status);
            expect(values == before, "`set` failed and changed something");
            ok = false;
        }
    }
    check_accepted(values);
    return values;
}

void by_environment(const std::vector<setting>& settings, const options* expected) {
    testing_support::clean_environment environment;
    for (const setting& s : settings) {
        environment.set("ORCHARD_" + absl::AsciiStrToUpper(absl::StrReplaceAll(s.name, {{"-", "_"}})), s.value);
    }
    options values;
    if (const absl::Status status = apply_environment(values); !status.ok()) {
        check_error(status);
        expect(values == options{}, "the environment had an error and changed something");
        expect(expected == nullptr, "a value that the environment refuses: " + status.ToString());
        return;
    }
    check_accepted(values);
    expect(expected == nullptr || values == *expected, "the environment gives other options");
}

/// Parses a command line. Only CLI11's own exceptions may leave it.
void by_arguments(std::vector<std::string> arguments, const options* expected) {
    const testing_support::clean_environment environment;
    CLI::App app;
    options values;
    add_to(app, values);
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
    try {
        app.parse(arguments);
    } catch (const CLI::ParseError& error) {
        expect(expected == nullptr, absl::StrCat("a value that the command line refuses: ", error.what()));
        return;
    }
    check_accepted(values);
    if (app.count("--managed-limit") == 0) {
        values.managed_limit = options{}.managed_limit;  // commands have a limit of their own
    }
    expect(expected == nullptr || values == *expected, "the command line gives other options");
}

void try_lines(std::string_view text) {
    constexpr std::size_t most_lines = 64;
    std::vector<setting> settings;
    std::vector<std::string> flags;
    std::vector<std::string> lines = absl::StrSplit(absl::string_view(text.data(), text.size()), '\n');
    lines.resize(std::min(lines.size(), most_lines));
    for (const std::string& line : lines) {
        const std::size_t equals = line.find('=');
        if (equals != std::string::npos) {
            settings.push_back({line.substr(0, equals), line.substr(equals + 1)});
            flags.push_back(absl::StrCat("--", absl::StrReplaceAll(settings.back().name, {{"_", "-"}}), "=",
                                         settings.back().value));
        }
    }
    // A variable ends at the first zero byte.
    bool ok = text.find('\0') == std::string_view::npos;
    const options values = by_text(settings, ok);
    by_environment(settings, ok ? &values : nullptr);
    by_arguments(flags, ok ? &values : nullptr);
    by_arguments(lines, nullptr);
}

}  // namespace
}  // namespace orchard::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    orchard::fuzz::try_lines({reinterpret_cast<const char*>(data), size});
    return 0;
}
