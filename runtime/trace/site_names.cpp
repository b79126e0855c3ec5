// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "runtime/trace/site_names.hpp"

#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

namespace orchard {
namespace {

struct known_names {
    std::mutex mutex;
    std::map<std::uint32_t, std::string> tags;
    std::set<std::string> files;
};

/// Made at the first use, which may come before `main`; never destroyed, as other static objects may use it last.
known_names& known() {
    static auto* const names = new known_names;
    return *names;
}

constexpr std::uint32_t most_lines = 16'384;

}  // namespace

void name_tag(std::uint32_t tag, std::string name) {
    const std::scoped_lock lock(known().mutex);
    known().tags[tag] = std::move(name);
}

std::string name_of_tag(std::uint32_t tag) {
    if (tag == 0) {
        return "no tag";
    }
    const std::scoped_lock lock(known().mutex);
    if (const auto found = known().tags.find(tag); found != known().tags.end()) {
        return found->second;
    }
    std::string name;
    for (const std::string& file : known().files) {
        for (std::uint32_t line = 1; line <= most_lines; ++line) {
            if (site_tag(file.c_str(), line) == tag) {
                absl::StrAppend(&name, name.empty() ? "" : " or ", file, ":", line);
            }
        }
    }
    return name.empty() ? absl::StrCat("tag ", tag) : name;
}

detail::named_file::named_file(const char* file) {
    std::string name(file);
    name.erase(0, name.rfind('/') + 1);
    const std::scoped_lock lock(known().mutex);
    known().files.insert(std::move(name));
}

}  // namespace orchard
