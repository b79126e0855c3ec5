// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The option `--json [FILE]`, and the documents that subcommands write with it. All subcommands follow one rule, which
/// docs/programs.md states for users:
///
///     --json, --json -    the document is the only text on standard output
///     --json FILE         the document goes to the file; the command's text still goes to standard output
///
/// A document is an object that begins with "version", "commit", "device" and "command".

#include <optional>
#include <ostream>
#include <string>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/cli/output_file.hpp"
#include "runtime/machine/machine_info.hpp"
#include "runtime/statistics/statistics.hpp"

namespace CLI {
class App;
}

namespace orchard::command_line {

/// The option `--json`, as it was given.
struct json_option {
    bool given = false;
    std::string file;  ///< empty: standard output
};

/// Adds `--json [FILE]` to `app`; parsing `app` sets `option`, which must live until then.
/// @param help  what is written, such as "Write the rows"; the text about the file is added
void add_json(CLI::App& app, json_option& option, const std::string& help);

/// Returns the member "device" of a document: "kind" and "reason".
/// @param kind  "cuda" or "emulated" for the device that ran kernels; "simulated" or "none" where none did
nlohmann::ordered_json device_json(const std::string& kind, const std::string& reason);
nlohmann::ordered_json device_json(const device_choice& choice);

/// Returns a document: "version" and "commit" of this program, "device", "command" as it was typed, and then `members`.
/// @param device   an object of `device_json`
/// @param members  an object; it has none of those four names
nlohmann::ordered_json json_document(const nlohmann::ordered_json& device, const nlohmann::ordered_json& members);

/// Returns a heap's statistics as a JSON object, with the same members as `orchard::to_json`.
nlohmann::ordered_json json_of(const statistics& values);

/// The destination of a command's document and of its text. It is opened before the work, so that a long run does not
/// end with the error that the file cannot be written.
class json_output {
public:
    /// Opens what `option` names. Errors: those of `output_file::open`.
    static absl::StatusOr<json_output> open(const json_option& option);

    /// Returns true if a document is to be written.
    [[nodiscard]] bool wanted() const { return to_standard_output_ || file_.has_value(); }

    /// Returns true if standard output is for the document alone.
    [[nodiscard]] bool owns_standard_output() const { return to_standard_output_; }

    /// Returns the stream for the command's text: standard output, or a stream that drops everything if standard output
    /// is for the document.
    [[nodiscard]] std::ostream& text() const;

    /// Writes the document, indented, with a final newline; does nothing if none is wanted. It is called once, after
    /// the work. Bytes that are no UTF-8, as in paths, are replaced. Errors: those of `output_file::commit`; an error
    /// of standard output is reported by `command_line::run`.
    absl::Status commit(const nlohmann::ordered_json& device, const nlohmann::ordered_json& members);

private:
    json_output() = default;

    bool to_standard_output_ = false;
    std::optional<output_file> file_;
};

}  // namespace orchard::command_line
