// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "tests/deadlock/row.hpp"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace orchard::test {
namespace {

template <class T>
nlohmann::json or_null(const std::optional<T>& value) {
    return value.has_value() ? nlohmann::json(*value) : nlohmann::json();
}

template <class T>
std::optional<T> optional_of(const nlohmann::json& value) {
    return value.is_null() ? std::nullopt : std::optional<T>(value.get<T>());
}

}  // namespace

std::string verdict_of(const row& measured) {
    if (!measured.error.empty()) {
        return verdicts::failed;
    }
    if (measured.nulls.value_or(0) != 0) {
        return verdicts::null;
    }
    return measured.begun_mib == 0 ? verdicts::not_tested : verdicts::through;
}

std::string to_json(const row& what) {
    nlohmann::ordered_json line;
    line["call"] = what.call;
    line["block_bytes"] = what.block_bytes;
    line["loading"] = what.loading;
    line["calls"] = what.calls;
    line["longest_call_us"] = or_null(what.longest_call_us);
    line["longest_request_us"] = or_null(what.longest_request_us);
    line["nulls"] = or_null(what.nulls);
    line["reason"] = what.reason;
    line["begun_mib"] = what.begun_mib;
    line["verdict"] = what.verdict;
    line["error"] = what.error;
    return line.dump();
}

absl::StatusOr<row> row_from_json(const std::string& text) {
    try {
        const auto line = nlohmann::json::parse(text);
        row result;
        result.call = line.at("call");
        result.block_bytes = line.at("block_bytes");
        result.loading = line.at("loading");
        result.calls = line.at("calls");
        result.longest_call_us = optional_of<double>(line.at("longest_call_us"));
        result.longest_request_us = optional_of<double>(line.at("longest_request_us"));
        result.nulls = optional_of<std::uint64_t>(line.at("nulls"));
        result.reason = line.at("reason");
        result.begun_mib = line.at("begun_mib");
        result.verdict = line.at("verdict");
        result.error = line.at("error");
        return result;
    } catch (const nlohmann::json::exception& e) {
        return absl::InvalidArgumentError(absl::StrCat("no row of a call: ", e.what(), ": '", text, "'"));
    }
}

}  // namespace orchard::test
