// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The 2 MiB chunks of GPU memory in use, ordered by their last service. Rule E2 of docs/uvm.md.
///
///     ring     head (0) <-> 3 <-> 1 <-> 5 <-> head        links_[0] is the head; chunk i has number i + 1
///                           ^old        ^young
///     evicted first: 3. A service of a block whose chunk is 3 moves it behind 5. A hit on its pages moves nothing.
///
/// The order is therefore not "least recently used": memory that is hot but never faults grows old and is evicted.

#include <cstdint>
#include <optional>
#include <vector>

namespace orchard::uvm_model {

/// A 2 MiB chunk of GPU memory.
enum class chunk_index : std::uint32_t {};
/// No chunk.
inline constexpr chunk_index no_chunk{0xffffffffu};

/// A list of the chunks in use from old to young, and the free chunks. A chunk is added at the young end, and
/// `mark_used` moves it there. Nothing else moves it; a hit does not. Source: `uvm_pmm_gpu.c:
/// uvm_pmm_gpu_mark_root_chunk_used`, `pick_root_chunk_to_evict`. Cost: a few words an operation; 8 bytes for each
/// chunk that was ever in use.
class chunk_list {
public:
    /// @param capacity  number of chunks; memory is allocated only for those that are used
    explicit chunk_list(std::uint64_t capacity) : capacity_{capacity} {}

    /// Takes a free chunk, puts it at the young end and returns it; returns nothing if all chunks are in use.
    /// Cost: the first use of a chunk allocates its 8 bytes; later uses take it from the list of free chunks.
    std::optional<chunk_index> take() {
        if (!free_.empty()) {
            const chunk_index chunk = free_.back();
            free_.pop_back();
            link(to_number(chunk));
            return chunk;
        }
        if (links_.size() - 1 >= capacity_) {
            return std::nullopt;
        }
        links_.push_back({});
        const auto number = static_cast<std::uint32_t>(links_.size() - 1);
        link(number);
        return chunk_index{number - 1};
    }

    /// Returns a chunk in use to the free ones. The chunk returned last is taken first; their order has no effect on
    /// the model's results, because all chunks are alike.
    void give_back(chunk_index chunk) {
        unlink(to_number(chunk));
        free_.push_back(chunk);
    }

    /// Moves a chunk that a fault service or a migration has used to the young end.
    void mark_used(chunk_index chunk) {
        unlink(to_number(chunk));
        link(to_number(chunk));
    }

    /// Returns the chunk that was serviced longest ago, other than `spared`; nothing if there is none.
    [[nodiscard]] std::optional<chunk_index> oldest(chunk_index spared = no_chunk) const {
        std::uint32_t number = links_[0].younger;
        if (number != 0 && chunk_index{number - 1} == spared) {
            number = links_[number].younger;
        }
        return number == 0 ? std::nullopt : std::optional{chunk_index{number - 1}};
    }

    /// Returns the next younger chunk; nothing after the youngest. With `oldest`, it walks over all chunks in use.
    [[nodiscard]] std::optional<chunk_index> younger(chunk_index chunk) const {
        const std::uint32_t number = links_[to_number(chunk)].younger;
        return number == 0 ? std::nullopt : std::optional{chunk_index{number - 1}};
    }

    /// Returns the number of chunks in use.
    [[nodiscard]] std::uint64_t used() const { return used_; }
    /// Returns the number of chunks that may be in use at the same time.
    [[nodiscard]] std::uint64_t capacity() const { return capacity_; }

private:
    /// The neighbours of a chunk in the ring, by number; 0 is the head.
    struct links {
        std::uint32_t older = 0;
        std::uint32_t younger = 0;
    };
    // Number 0 is the head of the ring, chunk i has number i + 1.
    [[nodiscard]] static std::uint32_t to_number(chunk_index chunk) { return static_cast<std::uint32_t>(chunk) + 1; }
    /// Puts a chunk between the youngest one and the head.
    void link(std::uint32_t number) {
        const std::uint32_t youngest = links_[0].older;
        links_[number] = {youngest, 0};
        links_[youngest].younger = number;
        links_[0].older = number;
        ++used_;
    }
    /// Takes a chunk out of the ring. Its own links stay as they were; `link` overwrites them.
    void unlink(std::uint32_t number) {
        links_[links_[number].older].younger = links_[number].younger;
        links_[links_[number].younger].older = links_[number].older;
        --used_;
    }

    std::uint64_t capacity_;
    std::uint64_t used_ = 0;         ///< number of chunks in the ring
    std::vector<links> links_{1};    ///< by number; chunks that were given back keep theirs
    std::vector<chunk_index> free_;  ///< given back and not taken again
};

}  // namespace orchard::uvm_model
