// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include "tests/explore/tally.hpp"

#include <algorithm>
#include <cctype>

namespace orchard::explore {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.'; }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool is_hex_digit(char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; }

/// "b0.w1.l2" and the like.
bool is_lane(std::string_view word) {
    constexpr std::string_view letters = "bwl";
    std::size_t at = 0;
    for (std::size_t part = 0; part < letters.size(); ++part) {
        if (part != 0 && (at >= word.size() || word[at++] != '.')) {
            return false;
        }
        if (at >= word.size() || word[at++] != letters[part]) {
            return false;
        }
        const std::size_t first_digit = at;
        while (at < word.size() && is_digit(word[at])) {
            ++at;
        }
        if (at == first_digit) {
            return false;
        }
    }
    return at == word.size();
}

/// A word with each number as '#': "0x1f" and "17" alike.
std::string without_numbers(std::string_view word) {
    std::string text;
    for (std::size_t i = 0; i < word.size();) {
        if (!is_digit(word[i])) {
            text += word[i++];
            continue;
        }
        const bool hexadecimal = word.substr(i, 2) == "0x" && i + 2 < word.size() && is_hex_digit(word[i + 2]);
        for (i += hexadecimal ? 2 : 0; i < word.size() && (hexadecimal ? is_hex_digit(word[i]) : is_digit(word[i]));) {
            ++i;
        }
        text += '#';
    }
    return text;
}

std::uint64_t mixed(std::uint64_t value) { return simt::explore::random_sequence(value).next(); }

constexpr std::size_t max_hashes = std::size_t{1} << 22;

}  // namespace

std::string kind_of(std::string_view violation) {
    std::string_view line = violation.substr(0, violation.find('\n'));
    // The actor that caused the violation; "deadlock" and "livelock" are no actors.
    const std::size_t colon = line.find(": ");
    if (colon != std::string_view::npos && !line.substr(0, colon).ends_with("lock") &&
        std::ranges::all_of(line.substr(0, colon), is_word)) {
        line.remove_prefix(colon + 2);
    }
    std::string kind;
    while (!line.empty()) {
        const std::size_t length = static_cast<std::size_t>(std::ranges::find_if_not(line, is_word) - line.begin());
        if (length == 0) {
            kind += line.front();
            line.remove_prefix(1);
            continue;
        }
        const std::string_view word = line.substr(0, length);
        kind += is_lane(word) ? std::string("a lane") : without_numbers(word);
        line.remove_prefix(length);
    }
    return kind;
}

void tally::add(std::uint64_t seed, simt::explore::strategy how, const simt::explore::verdict& v, double seconds) {
    ++runs_;
    seconds_ += seconds;
    // A sum, so that the order of adding does not matter; of numbers that depend on seed and trace together.
    digest_ += mixed(mixed(mixed(seed) ^ static_cast<std::uint64_t>(how) ^ v.trace_hash) ^ v.points ^
                     (v.ok() ? 0 : std::uint64_t{1} << 63));
    if (with_points_.size() <= v.points) {
        with_points_.resize(v.points + 1);
    }
    ++with_points_[v.points];
    note_hash(mixed(v.trace_hash));
    if (v.ok()) {
        return;
    }
    ++violations_;
    const std::string kind = kind_of(v.violation);
    finding& f = findings_[kind];
    if (f.count++ == 0 || seed < f.seed) {
        f.kind = kind;
        f.seed = seed;
        f.how = how;
        f.text = v.violation;
    }
}

/// Source: Flajolet, On adaptive sampling, Computing 43, 1990.
void tally::note_hash(std::uint64_t hash) {
    const auto is_kept = [this](std::uint64_t h) { return (h & ((std::uint64_t{1} << sampled_) - 1)) == 0; };
    if (!is_kept(hash)) {
        return;
    }
    hashes_.insert(hash);
    while (hashes_.size() > max_hashes) {
        ++sampled_;
        absl::erase_if(hashes_, [&](std::uint64_t h) { return !is_kept(h); });
    }
}

std::uint64_t tally::least_points() const {
    const auto found = std::ranges::find_if(with_points_, [](std::uint64_t n) { return n != 0; });
    return found == with_points_.end() ? 0 : static_cast<std::uint64_t>(found - with_points_.begin());
}

std::uint64_t tally::median_points() const {
    std::uint64_t before = 0;
    for (std::size_t points = 0; points < with_points_.size(); ++points) {
        before += with_points_[points];
        if (2 * before > runs_) {
            return points;
        }
    }
    return most_points();
}

std::uint64_t tally::most_points() const { return with_points_.empty() ? 0 : with_points_.size() - 1; }

std::vector<finding> tally::findings() const {
    std::vector<finding> list;
    for (const auto& [kind, f] : findings_) {
        list.push_back(f);
    }
    std::ranges::sort(list, {}, &finding::seed);
    return list;
}

std::uint64_t digest_of(const std::vector<tally>& all) {
    std::uint64_t digest = 0;
    for (const tally& t : all) {
        digest = mixed(digest ^ t.digest());
    }
    return digest;
}

}  // namespace orchard::explore
