// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `lane_array`: the array of one lane in a warp chunk of any layout, with its size.
///
/// The address of element i of the lane at position l, in a chunk of W lanes with tiles of g = 2^t bytes, is
///
///     chunk + l * g + i * size + floor(i / per tile) * (W - 1) * g          per tile = g / size
///
/// which is the formula of uvm/geometry/layout.hpp, written so that the terms of l, g and W are computed once for a
/// loop. Example: W = 4, tiles of 16 B, elements of 4 B, position 2, element 5: 2 * 16 + 5 * 4 + 1 * 3 * 16 = 100 bytes
/// from the chunk's beginning. (Byte 20 of the lane lies in row 1, which begins at 64, in the third tile, at byte 4 of
/// it.)

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <type_traits>

#include "device/arrays/lane_place.cuh"
#include "device/arrays/lane_ptr.cuh"
#include "device/simt/address.cuh"
#include "device/simt/assert.cuh"
#include "device/simt/config.cuh"
#include "device/simt/touch.cuh"
#include "uvm/geometry/layout.hpp"
#include "uvm/geometry/ragged_rows.hpp"

namespace orchard {

namespace device {

/// The map, the lane's position and the `tail_shift`, as `lane_array` has them: in a word, and in the upper bits of the
/// chunk's address.
///
///     shape    31          23 22    16 15      11 10    5 4     0
///              | shift, upper 9 | ragged | position | width | tile |      tile: its log2
///     chunk    63            48 47                               0
///              | shift, lower 16 | address                        |
///
/// The shift in bytes is thus the upper 9 bits, as a signed number, above the upper half of `chunk` without its lower
/// 16 bits: two instructions.
namespace lane_words {
inline constexpr std::uint32_t address_bits = 48;

ORCHARD_INLINE constexpr std::uint32_t shape_of(lane_map map, std::uint32_t position, std::int32_t shift) {
    return log_of(map.row_tile) | std::uint32_t{map.width} << 5 | position << 11 | std::uint32_t{map.ragged} << 16 |
           static_cast<std::uint32_t>(shift >> 16) << 23;
}
ORCHARD_INLINE constexpr std::uint64_t chunk_of(std::uint64_t address, std::int32_t shift) {
    return address | std::uint64_t{static_cast<std::uint32_t>(shift)} << address_bits;
}
ORCHARD_INLINE constexpr std::uint64_t address_in(std::uint64_t chunk) {
    return chunk & ((std::uint64_t{1} << address_bits) - 1);
}
ORCHARD_INLINE constexpr std::uint32_t position_in(std::uint32_t shape) { return shape >> 11 & 31; }
ORCHARD_INLINE constexpr std::uint32_t ragged_in(std::uint32_t shape) { return shape >> 16 & 127; }
ORCHARD_INLINE constexpr lane_map map_of(std::uint32_t pages, std::uint32_t shape) {
    return {pages, static_cast<tile>(shape & 31), static_cast<std::uint8_t>(shape >> 5 & 63),
            static_cast<std::uint8_t>(ragged_in(shape))};
}
/// Returns the shift in bytes, modulo 2^64.
ORCHARD_INLINE constexpr std::uint64_t shift_bytes(std::uint64_t chunk, std::uint32_t shape) {
    const auto high = static_cast<std::uint32_t>(static_cast<std::int32_t>(shape) >> 23);
    return std::uint64_t{high} << 32 | (static_cast<std::uint32_t>(chunk >> 32) & 0xffff0000u);
}
}  // namespace lane_words

/// Returns the place of a lane's byte `offset`, which lies behind the common rows, in a chunk whose lanes differ in
/// length (`ragged_rows::place_of`). Not inlined: most elements lie in common rows, and a loop over an array would need
/// 16 registers more for the others. Takes the words as they are (`lane_words`): fewer registers.
inline ORCHARD_NOINLINE std::uint64_t place_behind_common_rows(std::uint64_t chunk, std::uint32_t pages,
                                                               std::uint32_t shape, std::uint64_t offset) {
    const lane_map map = lane_words::map_of(pages, shape);
    const std::uint32_t position = lane_words::position_in(shape);
    const ragged_rows rows{log_of(map.row_tile) - log_of(tile::k4), map.log_step(), map.pages};
    const auto& table = *simt::global_pointer<const row_table>(chunk - os_page_bytes);
    std::int32_t page = rows.place_of(table, position, static_cast<std::uint32_t>(offset / os_page_bytes) - map.pages);
    if (map.has_pooled_rows() && page < table.cut) {
        page += table.shift;
    }
    return chunk + static_cast<std::uint64_t>(std::int64_t{page} * static_cast<std::int64_t>(os_page_bytes)) +
           (offset & (os_page_bytes - 1));
}

}  // namespace device

/// Contiguous elements of an array: the rest of a tile, or of a linear array. In it, elements are reached as with a
/// plain pointer, also by vector loads. It stays valid as long as the array's memory is allocated.
template <class T>
struct tile_span {
    T* data;
    std::uint64_t count;  ///< number of elements
    std::uint64_t first;  ///< index in the array of the first of these elements

    [[nodiscard]] ORCHARD_INLINE std::uint64_t size() const { return count; }
    [[nodiscard]] ORCHARD_INLINE T* begin() const { return data; }
    [[nodiscard]] ORCHARD_INLINE T* end() const { return data + count; }
    template <class Index, device::if_integer<Index> = 0>
    ORCHARD_INLINE T& operator[](Index i) const {
        return simt::touched(data[i]);
    }
};

/// The array of one lane of a warp chunk: a view, trivially copyable, which any lane of any warp may use. It supports
/// any number of lanes from 1 to 32, any tile, tail rows, lanes that differ in length, and (with one lane) linear
/// arrays. 24 bytes. Functions read memory only if the lanes differ in length, and then for elements behind the rows
/// that all lanes fill (uvm/geometry/ragged_rows.hpp).
///
/// The chunk lies in memory that all threads share, as for `lane_ptr`, below address 2^48.
///
/// `sizeof(T)` is a power of two and at most a tile (4 KiB if there are tail rows). The checked build ends the kernel
/// if that does not hold, or if an index is out of bounds; other builds check nothing.
///
/// Cost of `a[i]`, in instructions besides the load (nvcc 13.0, sm_90, in a loop; profiling/report/translation.py): 5
/// with a 32-bit index, 6 with a 64-bit index, which iterators use, if all rows have one tile; otherwise 8 and 12 in
/// the rows that all lanes fill, about 20 in tail rows, and behind common rows a call of some 40, with one to three
/// reads of the table. `data()[i]` takes 6. Within the pieces of `for_each_tile`, an element costs the same as with a
/// plain pointer.
template <class T>
class lane_array {
public:
    class iterator;

    /// Creates an empty array.
    lane_array() = default;
    /// Creates the array of `size` elements of the lane at `position` of the chunk that begins at `chunk`. No memory is
    /// accessed, so that any number of lanes may view the same array. The checked build ends the kernel if `position`
    /// is not below the map's width, if the address has more than 48 bits, if an element is larger than a tile, or if
    /// the tail rows hold fewer than `size` elements.
    /// @param shift  how far tail rows are moved, in leaves: `device::tail_shift`
    ORCHARD_INLINE lane_array(void* chunk, lane_map map, std::uint32_t position, std::uint64_t size,
                              std::int32_t shift = 0)
        : chunk_{device::lane_words::chunk_of(reinterpret_cast<std::uint64_t>(chunk), shift)},
          size_{size},
          pages_{map.pages},
          shape_{device::lane_words::shape_of(map, position, shift)} {
        static_assert(device::fits_tiles<T>,
                      "sizeof(T) must be a power of two, so that no element lies in two tiles: "
                      "pad it, with alignas");
        ORCHARD_ASSERT(reinterpret_cast<std::uint64_t>(chunk) >> device::lane_words::address_bits == 0,
                       "orchard: lane_array: an address of more than 48 bits");
        ORCHARD_ASSERT(position < width(), "orchard: lane_array: a position beyond the chunk's lanes");
        ORCHARD_ASSERT(width() == 1 || sizeof(T) <= bytes_of(pages_ == 0 && ragged() == 0 ? row_tile() : tile::k4),
                       "orchard: lane_array: an element is larger than a tile");
        ORCHARD_ASSERT(pages_ == 0 || ragged() != 0 || size <= std::uint64_t{pages_} * os_page_bytes / sizeof(T),
                       "orchard: lane_array: more elements than the chunk has room for");
    }
    /// Returns an array of the `size` contiguous elements from `first` on. Plain `malloc` memory can thus be passed to
    /// code that takes a `lane_array`.
    static ORCHARD_INLINE lane_array linear(T* first, std::uint64_t size) {
        return {const_cast<std::remove_cv_t<T>*>(first), lane_map::linear(), 0, size};
    }
    /// Converts to an array of const elements.
    template <class U, device::if_adds_const<U, T> = 0>
    ORCHARD_INLINE lane_array(const lane_array<U>& other)
        : lane_array(other.chunk(), other.map(), other.position(), other.size(), other.shift()) {}

    /// Returns the number of elements.
    [[nodiscard]] ORCHARD_INLINE std::uint64_t size() const { return size_; }
    /// Returns true for an array without elements, as `allocate_array` returns after a failure.
    [[nodiscard]] ORCHARD_INLINE bool empty() const { return size() == 0; }
    /// Returns where the chunk begins; for an array from a heap, where the lane's sub-array begins.
    [[nodiscard]] ORCHARD_INLINE void* chunk() const { return reinterpret_cast<void*>(address()); }
    /// Returns the tile, the width and the tail rows of the chunk.
    [[nodiscard]] ORCHARD_INLINE lane_map map() const { return device::lane_words::map_of(pages_, shape_); }
    /// Returns the lane's position in the rows of the chunk.
    [[nodiscard]] ORCHARD_INLINE std::uint32_t position() const { return device::lane_words::position_in(shape_); }
    /// Returns how far tail rows are moved, in leaves of 64 KiB; 0 unless the chunk's tail lies elsewhere.
    [[nodiscard]] ORCHARD_INLINE std::int32_t shift() const {
        return static_cast<std::int32_t>(static_cast<std::int64_t>(shift_bytes()) >> log_of(tile::k64));
    }

    /// Returns element `i` < `size()`. The address is computed, without an access to memory; only where lanes differ in
    /// length, an element behind the common rows takes one to three reads of the chunk's table.
    template <class Index, device::if_integer<Index> = 0>
    ORCHARD_INLINE T& operator[](Index i) const {
        ORCHARD_ASSERT(static_cast<std::uint64_t>(i) < size(), "orchard: lane_array: an index out of bounds");
        return simt::touched(*address_of(i));
    }

    /// Iterators use 64-bit indices and carry a copy of the array; a loop over a 32-bit index or over tiles is cheaper.
    [[nodiscard]] ORCHARD_INLINE iterator begin() const { return {*this, 0}; }
    [[nodiscard]] ORCHARD_INLINE iterator end() const { return {*this, size()}; }

    /// Returns a pointer to the first element if a `lane_ptr` can represent the array, else null. It can if W = 1, or
    /// if W is a power of two, the chunk begins at a multiple of a row, there are no tail rows, and the lanes have one
    /// length. Arrays from a heap with tiles of at most 4 KiB meet this.
    [[nodiscard]] ORCHARD_INLINE lane_ptr<T> data() const {
        if (width() == 1) {
            return lane_ptr<T>::linear(simt::global_pointer<T>(address()));
        }
        if (!map().pointable() || address() % (bytes_of(row_tile()) * width()) != 0) {
            return nullptr;
        }
        return lane_ptr<T>::from_address(address_of(0), row_tile(),
                                         static_cast<std::uint32_t>(simt::highest_bit(width())));
    }

    /// Returns the elements from `index` < `size()` on that are contiguous with it: to the end of its tile, or of the
    /// array. With 4 elements in a tile and 10 in the array, index 5 gives elements 5 to 7, index 9 gives element 9.
    [[nodiscard]] ORCHARD_INLINE tile_span<T> span_at(std::uint64_t index) const {
        ORCHARD_ASSERT(index < size(), "orchard: lane_array: an index out of bounds");
        const std::uint64_t left = size() - index;
        if (width() == 1) {
            return {address_of(index), left, index};
        }
        const tile t = in_full_rows(index) ? row_tile() : ragged() == 0 ? tile_in_tail(index) : tile_in_rows(index);
        const std::uint64_t in_tile = bytes_of(t) / sizeof(T);
        const std::uint64_t to_end = in_tile - (index & (in_tile - 1));
        return {address_of(index), to_end < left ? to_end : left, index};
    }

    /// Calls `act(tile_span<T>)` for each piece of the array, in order. A piece is a whole tile; the last one may be
    /// shorter. A linear array is one piece.
    template <class Act>
    ORCHARD_INLINE void for_each_tile(Act act) const {
        for (std::uint64_t i = 0; i < size();) {
            const tile_span<T> span = span_at(i);
            act(span);
            i += span.count;
        }
    }

private:
    [[nodiscard]] ORCHARD_INLINE std::uint64_t address() const { return device::lane_words::address_in(chunk_); }
    [[nodiscard]] ORCHARD_INLINE std::uint64_t shift_bytes() const {
        return device::lane_words::shift_bytes(chunk_, shape_);
    }
    [[nodiscard]] ORCHARD_INLINE tile row_tile() const { return map().row_tile; }
    [[nodiscard]] ORCHARD_INLINE std::uint32_t width() const { return map().width; }
    [[nodiscard]] ORCHARD_INLINE std::uint32_t ragged() const { return device::lane_words::ragged_in(shape_); }
    /// Returns the address of element `i`. All ways compute the same formula with different tiles. The tile of full
    /// rows does not depend on `i`, so that a loop over them has most of the formula computed once. Full rows are
    /// computed before the test, and the test is marked as unlikely: as one of two branches, they took 1.13 to 1.5
    /// times as long in random reads (H200, 2026-11-30).
    template <class Index, device::if_integer<Index> = 0>
    [[nodiscard]] ORCHARD_INLINE T* address_of(Index i) const {
        T* place = address_in_rows(row_tile(), i);
        if (__builtin_expect(!in_full_rows(i), 0)) {
            place = ragged() == 0 ? address_in_rows(tile_in_tail(i), i, shift_bytes()) : address_behind_common_rows(i);
        }
        return place;
    }
    /// Returns the rows of a chunk whose lanes differ in length.
    [[nodiscard]] ORCHARD_INLINE ragged_rows rows() const {
        return {log_of(row_tile()) - log_of(tile::k4), map().log_step(), pages_};
    }
    [[nodiscard]] ORCHARD_INLINE const row_table& table() const {
        return *simt::global_pointer<const row_table>(address() - os_page_bytes);
    }
    /// Returns the OS page of element `i`, counted from the end of the common rows.
    template <class Index, device::if_integer<Index> = 0>
    [[nodiscard]] ORCHARD_INLINE std::uint32_t page_behind_common_rows(Index i) const {
        constexpr auto in_page = static_cast<std::uint32_t>(sizeof(T) < os_page_bytes ? os_page_bytes / sizeof(T) : 1);
        return static_cast<std::uint32_t>(static_cast<std::make_unsigned_t<Index>>(i) / in_page) - pages_;
    }
    /// Returns the address of an element behind the common rows. Reads one to three words of the chunk's table.
    template <class Index, device::if_integer<Index> = 0>
    [[nodiscard]] ORCHARD_INLINE T* address_behind_common_rows(Index i) const {
        return simt::global_pointer<T>(
            device::place_behind_common_rows(address(), pages_, shape_, static_cast<std::uint64_t>(i) * sizeof(T)));
    }
    /// Returns the tile of an element behind the common rows.
    template <class Index, device::if_integer<Index> = 0>
    [[nodiscard]] ORCHARD_INLINE tile tile_in_rows(Index i) const {
        const std::uint32_t log = rows().log_tile_of(table(), position(), page_behind_common_rows(i));
        return static_cast<tile>(log_of(tile::k4) + log);
    }
    /// Returns where element `i` would be if all rows had tile `t`. In a loop, the compiler computes what depends on
    /// `t` only once.
    ///
    /// This is right in tail rows as well. A tail row with tile `t` begins at a byte of each lane that is a multiple of
    /// `t`, because larger tiles precede it. The rows before it therefore take as much of the chunk as rows with tile
    /// `t` would.
    template <class Index, device::if_integer<Index> = 0>
    [[nodiscard]] ORCHARD_INLINE T* address_in_rows(tile t, Index i, std::uint64_t shift = 0) const {
        constexpr std::uint32_t size = sizeof(T);
        const std::uint64_t first = address() + shift + (std::uint32_t{position()} << log_of(t));
        const std::uint32_t in_tile = (std::uint32_t{1} << log_of(t)) / size - 1;
        return simt::global_pointer<T>(device::advance<size>(first, i, in_tile, (std::uint32_t{width()} - 1) * size));
    }
    /// Returns whether element `i` lies outside the tail rows. Without other rows there is nothing to compare: where
    /// the map is a constant, an access is the formula alone. Nor is there if the full rows have more elements than a
    /// 32-bit index can name.
    template <class Index, device::if_integer<Index> = 0>
    [[nodiscard]] ORCHARD_INLINE bool in_full_rows(Index i) const {
        const bool has_no_other_rows = (pages_ | ragged()) == 0;
        const std::uint64_t full = (std::uint64_t{pages_} * os_page_bytes & ~(bytes_of(row_tile()) - 1)) / sizeof(T);
        if constexpr (sizeof(Index) > 4) {
            return has_no_other_rows || static_cast<std::uint64_t>(i) < full;
        } else {
            constexpr std::uint64_t most = ~std::uint32_t{0};
            return has_no_other_rows || full > most || static_cast<std::uint32_t>(i) < static_cast<std::uint32_t>(full);
        }
    }
    /// Returns the tile of element `i`, which may lie in a tail row, from its OS page (`lane_map::tile_of_page`). With
    /// 84 KiB a lane (21 pages, binary 10101) and tiles of 64 KiB: page 3 (00011) differs from 21 in bit 4 first: 16
    /// pages, a full row. Page 17 (10001) differs in bit 2: 4 pages, 16 KiB. Page 20 (10100) differs in bit 0: 1 page,
    /// 4 KiB.
    template <class Index, device::if_integer<Index> = 0>
    [[nodiscard]] ORCHARD_INLINE tile tile_in_tail(Index i) const {
        // Elements larger than an OS page never lie in tail rows.
        constexpr auto in_page = static_cast<std::uint32_t>(sizeof(T) < os_page_bytes ? os_page_bytes / sizeof(T) : 1);
        return map().tile_of_page(static_cast<std::uint32_t>(static_cast<std::make_unsigned_t<Index>>(i) / in_page));
    }

    std::uint64_t chunk_ = 0;
    std::uint64_t size_ = 0;
    std::uint32_t pages_ = 0;
    std::uint32_t shape_ = device::lane_words::shape_of(lane_map::linear(), 0, 0);
};

/// Visits the elements in order. A forward iterator: `++` adds 1 to an index, and `*` computes the address anew.
/// Compare only iterators of the same array.
template <class T>
class lane_array<T>::iterator {
public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = std::remove_cv_t<T>;
    using difference_type = std::ptrdiff_t;
    using pointer = T*;
    using reference = T&;

    iterator() = default;
    ORCHARD_INLINE iterator(const lane_array& array, std::uint64_t index) : array_{array}, index_{index} {}

    ORCHARD_INLINE T& operator*() const { return array_[index_]; }
    ORCHARD_INLINE T* operator->() const { return &array_[index_]; }
    ORCHARD_INLINE iterator& operator++() {
        ++index_;
        return *this;
    }
    ORCHARD_INLINE iterator operator++(int) {
        const iterator before = *this;
        ++index_;
        return before;
    }
    friend ORCHARD_INLINE bool operator==(const iterator& a, const iterator& b) { return a.index_ == b.index_; }
    friend ORCHARD_INLINE bool operator!=(const iterator& a, const iterator& b) { return a.index_ != b.index_; }

private:
    lane_array array_;
    std::uint64_t index_ = 0;
};

static_assert(sizeof(lane_array<int>) == 24 && std::is_trivially_copyable_v<lane_array<int>>);

}  // namespace orchard
