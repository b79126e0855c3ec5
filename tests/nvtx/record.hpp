// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// What the recorder (recorder/nvtx_recorder.cpp) has written, for the tests.

#include <cstdint>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace orchard::test {

/// The calls of NVTX that this process has made, from a place on.
class nvtx_record {
public:
    /// Returns the number of lines so far. Calls of other threads may follow at any time.
    static std::size_t lines() { return read().size(); }
    /// Reads the lines from `first` on.
    explicit nvtx_record(std::size_t first = 0) {
        std::vector<std::string> all = read();
        lines_.assign(all.begin() + static_cast<std::ptrdiff_t>(first < all.size() ? first : all.size()), all.end());
        for (const std::string& line : lines_) {
            add(line);
        }
    }
    /// The number of lines that begin with this text.
    [[nodiscard]] std::size_t count(const std::string& begin) const {
        std::size_t n = 0;
        for (const std::string& line : lines_) {
            n += line.rfind(begin, 0) == 0 ? 1 : 0;
        }
        return n;
    }

    /// A range: its payload, and the thread that pushed it; 0 for a range that was started.
    struct range {
        std::uint64_t payload = 0;
        std::uint64_t thread = 0;
    };
    /// A heap that is registered, with its regions: first byte -> bytes.
    struct memory {
        std::string use;
        std::string name;
        std::uint64_t at = 0;
        std::uint64_t bytes = 0;
        std::map<std::uint64_t, std::uint64_t> regions;
    };

    std::map<std::string, std::vector<range>> ranges;          ///< by name, those that have ended
    std::set<std::string> open;                                ///< names of ranges that have not
    std::map<std::string, std::set<std::uint64_t>> threads;    ///< by name
    std::map<std::uint64_t, std::string> streams;              ///< names by address
    std::map<std::string, std::vector<std::int64_t>> samples;  ///< by the counter's name
    std::map<std::uint64_t, memory> heaps;
    std::vector<std::string> errors;  ///< calls that do not fit those before

private:
    static std::vector<std::string> read();

    void add(const std::string& line) {
        std::istringstream in(line);
        std::string verb;
        in >> verb;
        const auto number = [&] {
            std::uint64_t n = 0;
            in >> n;
            return n;
        };
        const auto rest = [&] {
            std::string text;
            std::getline(in >> std::ws, text);
            return text;
        };
        if (verb == "thread") {
            const std::uint64_t thread = number();
            threads[rest()].insert(thread);
        } else if (verb == "stream") {
            const std::uint64_t stream = number();
            streams[stream] = rest();
        } else if (verb == "push") {
            const std::uint64_t thread = number();
            const std::uint64_t payload = number();
            pushed_[thread].push_back({rest(), payload});
        } else if (verb == "pop") {
            const std::uint64_t thread = number();
            if (pushed_[thread].empty()) {
                errors.push_back(line);
                return;
            }
            ranges[pushed_[thread].back().first].push_back({pushed_[thread].back().second, thread});
            pushed_[thread].pop_back();
        } else if (verb == "start") {
            const std::uint64_t n = number();
            const std::uint64_t payload = number();
            started_[n] = {rest(), payload};
        } else if (verb == "end") {
            const auto found = started_.find(number());
            if (found == started_.end()) {
                errors.push_back(line);
                return;
            }
            ranges[found->second.first].push_back({found->second.second, 0});
            started_.erase(found);
        } else if (verb == "counter") {
            const std::uint64_t n = number();
            counters_[n] = rest();
        } else if (verb == "sample") {
            const std::uint64_t n = number();
            samples[counters_[n]].push_back(static_cast<std::int64_t>(number()));
        } else if (verb == "heap") {
            memory& m = heaps[number()];
            in >> m.use >> m.at >> m.bytes;
            m.name = rest();
        } else if (verb == "heap_end") {
            heaps.erase(number());
        } else if (verb == "region") {
            memory& m = heaps[number()];
            const std::uint64_t at = number();
            const std::uint64_t bytes = number();
            if (at < m.at || at + bytes > m.at + m.bytes || !m.regions.emplace(at, bytes).second) {
                errors.push_back(line);
            }
        } else if (verb == "region_end") {
            const std::uint64_t at = number();
            std::size_t gone = 0;
            for (auto& [n, m] : heaps) {
                gone += m.regions.erase(at);
            }
            if (gone != 1) {
                errors.push_back(line);
            }
        }
    }

    std::vector<std::string> lines_;
    std::map<std::uint64_t, std::vector<std::pair<std::string, std::uint64_t>>> pushed_;
    std::map<std::uint64_t, std::pair<std::string, std::uint64_t>> started_;
    std::map<std::uint64_t, std::string> counters_;
};

/// The file that the recorder writes: set, with the variables by which NVTX loads the recorder, before the first call.
inline const std::string& record_path() {
    static const std::string path = "/tmp/orchard_nvtx_record_" + std::to_string(::getpid());
    return path;
}

inline std::vector<std::string> nvtx_record::read() {
    std::vector<std::string> all;
    std::ifstream in(record_path());
    for (std::string line; std::getline(in, line);) {
        all.push_back(line);
    }
    return all;
}

}  // namespace orchard::test
