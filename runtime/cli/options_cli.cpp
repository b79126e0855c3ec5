// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The heap's options as flags of a subcommand; options_cli.hpp has the interface.
///
///     parsing begins    preparse_callback    apply_environment(values), warnings of foreign variables
///     --extent=4MiB     callback             detail::set_field(values, extent, "--extent", "4MiB")
///
/// The environment is applied first, so that a flag wins over the variable.

#include "runtime/cli/options_cli.hpp"

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "runtime/cli/command_line.hpp"
#include "runtime/options/option_fields.hpp"

namespace orchard {
namespace {

// Throws an error as CLI11 expects it of a callback; command_line::run turns it into one line. It is no
// ValidationError, because CLI11 would add the flag's name to that a second time.
void check(const absl::Status& status) {
    if (!status.ok()) {
        throw CLI::ConversionError(std::string(status.message()), CLI::ExitCodes::ConversionError);
    }
}

/// Adds a flag with a value. The help shows the allowed values and the default as it was before parsing.
CLI::Option* add_value(CLI::App& app, const option_info& info, const std::function<void(const std::string&)>& set) {
    return app.add_option_function<std::string>(info.flag, set, absl::StrCat(info.help, " (", info.allowed, ")"))
        ->type_name(info.unit)
        ->default_str(info.value)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

/// Adds a flag without a value, and `--no-` before its name, which turns it off. CLI11 passes "true" if the flag stands
/// alone, "false" for the name with "!", and otherwise the text after "=".
CLI::Option* add_switch(CLI::App& app, const option_info& info, const std::function<void(const std::string&)>& set) {
    CLI::Option* flag = app.add_flag(absl::StrCat(info.flag, ",!--no-", info.flag.substr(2)), info.help);
    return flag->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)->each(set);
}

}  // namespace

void add_to(CLI::App& app, options& values) {
    values.managed_limit = std::uint64_t{2} << 30;
    app.preparse_callback([&values](std::size_t) {
        std::vector<std::string> foreign;
        const absl::Status status = apply_environment(values, &foreign);
        command_line::warn(foreign);
        check(status);
    });
    for (const option_info& info : option_table(values)) {
        if (app.get_option_no_throw(info.flag) != nullptr) {
            continue;
        }
        // Never null: the name comes from the same table. The table itself is constant, so that the pointer stays
        // valid.
        const detail::option_field* option = detail::find_option(info.name);
        const auto set = [&values, option, flag = info.flag](const std::string& text) {
            check(detail::set_field(values, *option, flag, text));
        };
        (info.is_switch ? add_switch(app, info, set) : add_value(app, info, set))->group("Heap");
    }
}

/// As `apply_environment`, a privileged program takes no variable.
std::set<std::string> given_options(const CLI::App& app) {
    std::set<std::string> given;
    for (const option_info& o : option_table()) {
        if (app.count(o.flag) != 0 || ::secure_getenv(o.variable.c_str()) != nullptr) {
            given.insert(o.name);
        }
    }
    return given;
}

}  // namespace orchard
