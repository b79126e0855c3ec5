// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace orchard::testing_support {

/// While it lives the environment has no variable that starts with `ORCHARD_` but those set through it; afterwards it
/// is as before.
class clean_environment {
public:
    clean_environment() : saved_{take()} {}
    ~clean_environment() {
        (void)take();
        for (const auto& [name, value] : saved_) {
            set(name, value);
        }
    }
    clean_environment(const clean_environment&) = delete;
    clean_environment& operator=(const clean_environment&) = delete;

    void set(const std::string& name, const std::string& value) { ::setenv(name.c_str(), value.c_str(), 1); }

private:
    static std::vector<std::pair<std::string, std::string>> take() {
        std::vector<std::pair<std::string, std::string>> found;
        for (char** entry = environ; *entry != nullptr; ++entry) {
            const std::string_view text = *entry;
            const std::size_t equals = text.find('=');
            if (text.starts_with("ORCHARD_") && equals != std::string_view::npos) {
                found.emplace_back(text.substr(0, equals), text.substr(equals + 1));
            }
        }
        for (const auto& [name, value] : found) {
            ::unsetenv(name.c_str());
        }
        return found;
    }

    std::vector<std::pair<std::string, std::string>> saved_;
};

}  // namespace orchard::testing_support
