// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The limits on the memory of this process; see host_memory.hpp. A process is in a control group, which lies in
/// others:
///
///     /sys/fs/cgroup/                memory.max: none
///       a/                           memory.max: 8 GiB
///         b/   <- /proc/self/cgroup  memory.max: max           the process may use 8 GiB

#include "examples/graph/host_memory.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <absl/strings/str_format.h>
#include <absl/strings/str_split.h>

namespace orchard::examples {

namespace {

/// Returns the least limit in the files `name` of the folder `group` below `root` and of all folders above it, `root`
/// included; `least` if no limit is lower. A group may be named from outside the process's namespace ("/../x") and then
/// is not there; such folders are passed over. Without a limit, a file says "max" or a number above all memory.
std::uint64_t least_limit(const std::filesystem::path& root, const std::filesystem::path& group, const char* name,
                          std::uint64_t least) {
    std::filesystem::path folder = root;
    // From the root down, the root itself first, as ".".
    for (const auto& part : std::filesystem::path(".") / group.relative_path()) {
        folder /= part;
        std::uint64_t limit = 0;
        if (std::ifstream(folder / name) >> limit) {
            least = std::min(least, limit);
        }
    }
    return least;
}

}  // namespace

/// Looks at both versions of control groups: a machine may use either, or both for different controllers. Version 1 has
/// a tree of its own for memory.
std::uint64_t host_memory_bytes(const std::string& cgroups, const std::string& own) {
    std::uint64_t least =
        static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGE_SIZE));
    rlimit own_limit{};
    if (getrlimit(RLIMIT_AS, &own_limit) == 0) {
        least = std::min<std::uint64_t>(least, own_limit.rlim_cur);  // none: above all memory
    }
    // In a container, the folder of the process's own group is often the root, whatever `own` says.
    std::string group = "/";
    std::string group_of_memory = "/";
    std::ifstream lines(own);
    for (std::string line; std::getline(lines, line);) {
        // "0::/a/b" for version 2; "4:memory:/a/b", or several controllers with commas, for version 1.
        const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
        if (fields.size() == 3) {
            const std::vector<std::string> controllers = absl::StrSplit(fields[1], ',');
            if (fields[1].empty()) {
                group = fields[2];
            } else if (std::find(controllers.begin(), controllers.end(), "memory") != controllers.end()) {
                group_of_memory = fields[2];
            }
        }
    }
    least = least_limit(cgroups, group, "memory.max", least);
    return least_limit(cgroups + "/memory", group_of_memory, "memory.limit_in_bytes", least);
}

std::uint64_t available_host_bytes(const std::string& meminfo) {
    std::uint64_t least = host_memory_bytes();
    std::ifstream words(meminfo);
    for (std::string word; words >> word;) {
        std::uint64_t kib = 0;  // "MemAvailable:  24675276 kB"
        if (word == "MemAvailable:" && words >> kib) {
            least = std::min(least, kib * 1024);
        }
    }
    return least;
}

absl::Status check_host_memory(std::uint64_t bytes, std::string_view purpose, std::uint64_t have,
                               std::string_view remedy) {
    if (bytes <= have) {
        return absl::OkStatus();
    }
    constexpr double gib = 1024.0 * 1024.0 * 1024.0;
    return absl::ResourceExhaustedError(
        absl::StrFormat("%s needs %.1f GiB of host memory and this process may use %.1f GiB; %s", std::string(purpose),
                        static_cast<double>(bytes) / gib, static_cast<double>(have) / gib, std::string(remedy)));
}

}  // namespace orchard::examples
