// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The option `--json [FILE]` and its documents; json_output.hpp has the rule.

#include "runtime/cli/json_output.hpp"

#include <CLI/CLI.hpp>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "runtime/cli/command_line.hpp"
#include "runtime/machine/version.hpp"

namespace orchard::command_line {

void add_json(CLI::App& app, json_option& option, const std::string& help) {
    // A process that parses several command lines, as tests do, begins each with the option not given.
    option = json_option{};
    app.add_option_function<std::string>(
           "--json",
           [&option](const std::string& file) {
               option.given = true;
               option.file = file == "-" ? "" : file;
           },
           absl::StrCat(help, " as JSON to this file; - or no file: to standard output, without other text"))
        ->expected(0, 1)
        ->type_name("[FILE]");
}

nlohmann::ordered_json device_json(const std::string& kind, const std::string& reason) {
    return {{"kind", kind}, {"reason", reason}};
}

nlohmann::ordered_json device_json(const device_choice& choice) {
    return device_json(name_of(choice.kind), choice.reason);
}

nlohmann::ordered_json json_document(const nlohmann::ordered_json& device, const nlohmann::ordered_json& members) {
    nlohmann::ordered_json document = {{"version", std::string(version_text)},
                                       {"commit", std::string(commit())},
                                       {"device", device},
                                       {"command", typed()}};
    for (const auto& [name, value] : members.items()) {
        document[name] = value;
    }
    return document;
}

/// Parsed from the library's own text, which is made from the list of statistics.
nlohmann::ordered_json json_of(const statistics& values) { return nlohmann::ordered_json::parse(to_json(values)); }

absl::StatusOr<json_output> json_output::open(const json_option& option) {
    json_output output;
    output.to_standard_output_ = option.given && option.file.empty();
    absl::StatusOr<std::optional<output_file>> file = open_if_named(option.file);
    if (!file.ok()) {
        return file.status();
    }
    if (file->has_value()) {
        output.file_.emplace(**std::move(file));
    }
    return output;
}

std::ostream& json_output::text() const {
    // A stream without a buffer drops what is written to it.
    static std::ostream none(nullptr);
    return to_standard_output_ ? none : std::cout;
}

absl::Status json_output::commit(const nlohmann::ordered_json& device, const nlohmann::ordered_json& members) {
    if (!wanted()) {
        return absl::OkStatus();
    }
    const std::string document =
        json_document(device, members).dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
    if (to_standard_output_) {
        std::cout << document;
        return absl::OkStatus();
    }
    return file_->commit(document);
}

}  // namespace orchard::command_line
