// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The record of a run: a hash and, if wanted, a timeline for people to read. Both are the same on every machine: words
/// and addresses appear by name, files without their folders.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "device/simt/config.cuh"

namespace orchard::simt::explore {

/// Returns a location such as "client.cuh:34", without folders, which differ between machines.
std::string text_of(site where);

/// Names of words and addresses. Addresses differ from run to run, so that neither the timeline nor the hash may have
/// them:
///
///     add(words, 64, "bitmap", 8)        the word at byte 16 is bitmap[2], an address at byte 20 is bitmap[2]+4
///     add(&count, 8, "counter", 0)       the word is counter
class name_table {
public:
    /// Names words: word i of `stride` bytes is `name[i]`. With a stride of 0, the whole range is `name`.
    /// @param bits  The words are bitmaps. Their values stay numbers: the bitmap of a nearly full slab may look like an
    ///     address, and whether it does differs from run to run.
    void add(const void* first, std::size_t bytes, std::string name, std::size_t stride, bool bits = false);

    /// Returns the name of the word at `at`; "word N" if it has none.
    [[nodiscard]] std::string name_of(const volatile void* at, std::uint32_t number) const;
    /// Returns a value as text: hexadecimal, or as name and offset if it is an address in a named range. So is an
    /// address divided by 16 with another number in its word: 16 bits above it, as words of containers have it, or 20
    /// bits below it, as the messages of XMalloc's queues.
    /// @param word  the word that has the value; null: none
    [[nodiscard]] std::string text_of_value(std::uint64_t value, const volatile void* word) const;
    /// Returns a value for the hash: such an address is replaced by range and offset.
    [[nodiscard]] std::uint64_t portable(std::uint64_t value, const volatile void* word) const;

private:
    struct range {
        std::uintptr_t first;
        std::size_t bytes;
        std::size_t stride;
        std::string name;
        bool bits;
    };
    [[nodiscard]] const range* find(std::uintptr_t at) const;
    /// An address in a named range, and the number beside it in its word.
    struct place {
        const range* in;
        std::uint64_t offset;
        std::uint64_t rest;
    };
    [[nodiscard]] std::optional<place> place_of(std::uint64_t value) const;
    [[nodiscard]] std::optional<place> place_of(std::uint64_t value, const volatile void* word) const;
    std::vector<range> ranges_;
};

/// One operation in the timeline.
struct event {
    std::uint64_t point = 0;    ///< number of the scheduling point
    std::uint64_t time_ns = 0;  ///< logical
    std::string actor;          ///< its name, such as "b0.w1.l2"
    std::string operation;      ///< "fetch_or acquire"
    std::string place;          ///< the word's name, or what the lanes do together
    std::string value;          ///< "0x1 -> 0x3"
    std::string view;           ///< how old the value seen is, and what the actor has learnt of the others since
    site where{"", 0};
};

/// The record of one run. The hash is always kept, the events only if the settings ask for them.
class trace {
public:
    name_table names;

    /// Adds a number to the hash. The order of the numbers counts. The hash tells runs apart; it resists no attack.
    void mix(std::uint64_t value) {
        hash_ ^= value + 0x9e3779b97f4a7c15u + (hash_ << 6) + (hash_ >> 2);
        hash_ *= 0xff51afd7ed558ccdu;
        hash_ ^= hash_ >> 32;
    }
    [[nodiscard]] std::uint64_t hash() const { return hash_; }

    void add(event e) { events_.push_back(std::move(e)); }
    [[nodiscard]] const std::vector<event>& events() const { return events_; }
    /// Returns one line for each event, in columns, each line ended by a newline: point, logical time, actor,
    /// operation, word, value, source location, view.
    [[nodiscard]] std::string text() const;

private:
    std::uint64_t hash_ = 0xcbf29ce484222325u;
    std::vector<event> events_;
};

}  // namespace orchard::simt::explore
