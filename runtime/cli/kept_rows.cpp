// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "runtime/cli/kept_rows.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "runtime/cli/output_file.hpp"

namespace orchard::command_line {

absl::StatusOr<nlohmann::ordered_json> kept_rows(const std::string& file, const device_choice& device,
                                                 const std::string& member) {
    using nlohmann::ordered_json;
    if (file.empty() || !std::filesystem::exists(file)) {
        return ordered_json::array();
    }
    std::ifstream in(file);
    const ordered_json document = ordered_json::parse(in, nullptr, false);
    const auto has = [&](const char* name) { return document.contains(name); };
    if (!document.is_object() || !has("rows") || !document["rows"].is_array() || !has("device") ||
        !document["device"].is_object() || (!member.empty() && !document.contains(member)) ||
        !std::all_of(document["rows"].begin(), document["rows"].end(),
                     [](const ordered_json& row) { return row.is_object(); })) {
        return absl::DataLossError(absl::StrCat("--resume: ", file, " is no document of this command"));
    }
    if (const ordered_json kind = document["device"].value("kind", ordered_json()); kind != name_of(device.kind)) {
        return absl::InvalidArgumentError(
            absl::StrCat("--resume: the rows of ", file, " are of another device: ", kind.dump()));
    }
    return document["rows"];
}

absl::Status keep_rows(const json_option& to, const device_choice& device, const nlohmann::ordered_json& members) {
    if (to.file.empty() || (std::filesystem::exists(to.file) && !std::filesystem::is_regular_file(to.file))) {
        return absl::OkStatus();
    }
    return write_file(to.file, json_document(device_json(device), members).dump(1) + "\n");
}

}  // namespace orchard::command_line
