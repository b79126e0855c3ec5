// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Pointers into interleaved warp chunks: eight bytes that any lane of any warp may dereference.
///
/// If W is a power of two, the chunk begins at a multiple of W * g, and all its rows have one tile of g = 2^t bytes,
/// then the lane's position is a bit field of an element's address:
///
///      63        61 60     56 55              t+w t+w-1             t t-1          0
///     | w = log2 W |    t    |  chunk and row    | lane's position  | byte in tile |
///     '--- how to step on ---'--------------- the element's own address -----------'
///
/// User addresses have 47 bits on x86-64, 48 on 64-bit Arm, and 56 for programs that ask for five-level page tables.
/// CUDA uses addresses of the same range. The upper eight bits are therefore free, and masking them gives the element's
/// address.
///
/// `+ n` must carry from the byte in the tile to the row, past the lane's position. For this, the bits of the position
/// are set to 1 before the addition, so that a carry runs through them, and restored afterwards. Example: W = 4, tiles
/// of 16 B, elements of 4 B, a chunk at 0x1000. Element 7 of the lane at position 2 is the last one of its tile in row
/// 1:
///
///                      row  position  byte
///     0x106c           1    10        1100      element 7
///     set to 1         1    11        1100
///     + 4              10   00        0000      the carry has raised the row
///     restored         10   10        0000      0x10a0: element 8, in row 2

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <type_traits>

#include "device/simt/address.cuh"
#include "device/simt/assert.cuh"
#include "device/simt/config.cuh"
#include "device/simt/touch.cuh"
#include "uvm/geometry/layout.hpp"

namespace orchard {

namespace device {

/// The bits of a `lane_ptr` that are the element's address.
inline constexpr std::uint32_t lane_address_bits = 56;
inline constexpr std::uint64_t lane_address_mask = (std::uint64_t{1} << lane_address_bits) - 1;
/// The lowest bit of log2 W; the bits of t lie below it.
inline constexpr std::uint32_t lane_width_shift = 61;

/// True if arrays of `T` can be interleaved: no element may lie in two tiles.
template <class T>
inline constexpr bool fits_tiles = (sizeof(T) & (sizeof(T) - 1)) == 0 && sizeof(T) <= (std::size_t{1} << 16);

/// Admits a template for integers alone.
template <class T>
using if_integer = std::enable_if_t<std::is_integral_v<T>, int>;

/// Admits a conversion from elements of type `From` to `To` if that only adds `const`.
template <class From, class To>
using if_adds_const = std::enable_if_t<std::is_same_v<const From, To>, int>;

/// Returns the address `index` elements after `from` in a lane's tiles: adds the size of these elements and, for each
/// whole tile, the tiles of the other lanes (AlignMalloc's equation (2)). The caller handles a carry out of the tile.
///
/// Example: W = 4, tiles of 16 B, elements of 4 B. 9 elements are 36 B, and two whole tiles among them, each with 3
/// tiles of other lanes: (9 & ~3) * 12 = 96 B. The sum is two rows of 64 B and one element. Negative indices work
/// likewise: -1 is -4 B and (-1 & ~3) * 12 = -48 B, one row back and three elements on.
///
/// 32-bit indices are multiplied as such, which takes one GPU instruction instead of four.
/// @param in_tile  elements of a tile, minus 1
/// @param gap  size of an element in bytes, times the number of other lanes
template <std::uint32_t Size, class Index>
ORCHARD_INLINE std::uint64_t advance(std::uint64_t from, Index index, std::uint32_t in_tile, std::uint32_t gap) {
    if constexpr (sizeof(Index) > 4) {
        const auto n = static_cast<std::uint64_t>(index);
        return from + n * Size + (n & ~std::uint64_t{in_tile}) * gap;
    } else if constexpr (std::is_signed_v<Index>) {
        const std::int32_t n = index;
        const std::int32_t whole = n & ~static_cast<std::int32_t>(in_tile);
        const auto plain = static_cast<std::uint64_t>(std::int64_t{n} * std::int64_t{Size});
        return simt::multiply_add_wide(whole, static_cast<std::int32_t>(gap), from + plain);
    } else {
        const std::uint32_t n = index;
        return simt::multiply_add_wide(n & ~in_tile, gap, from + std::uint64_t{n} * Size);
    }
}

}  // namespace device

/// A pointer to one element of a lane's array in an interleaved warp chunk, or (W = 1) of any array. It is a random
/// access iterator and trivially copyable. It may be stored, and passed to any lane of any warp of any kernel.
///
/// The array lies in memory that all threads share (on CUDA: global memory, neither shared nor local), since the
/// accesses assume that.
///
/// As with plain pointers, nothing is checked: arithmetic must stay within one array and one past its end, and
/// differences and comparisons need pointers into the same array. `sizeof(T)` is a power of two and at most a tile.
/// Other types do not compile; in the checked build, a type larger than a tile ends the kernel when the pointer is
/// made.
///
/// Cost, in instructions besides the load (nvcc 13.0, sm_90; those of a plain pointer in brackets): in a loop, `p[i]` 6
/// (1) with any 32-bit index, 8 (2) with a 64-bit one; `*p++` 9 (2); `p += n` about 20. For `p[i]`, all that depends on
/// the pointer only is computed before the loop; this form is therefore preferable. `p += n` changes the pointer
/// itself.
template <class T>
class lane_ptr {
public:
    using iterator_category = std::random_access_iterator_tag;
    using value_type = std::remove_cv_t<T>;
    using difference_type = std::ptrdiff_t;
    using pointer = T*;
    using reference = T&;

    /// Creates a null pointer.
    lane_ptr() = default;
    ORCHARD_INLINE constexpr lane_ptr(std::nullptr_t) {}
    /// Converts to a pointer to const.
    template <class U, device::if_adds_const<U, T> = 0>
    ORCHARD_INLINE constexpr lane_ptr(lane_ptr<U> other) : bits_{other.bits()} {}

    /// Returns the pointer to the element at `address`, in a chunk of 2^`log_width` lanes (0 to 5) with tiles of `t`
    /// that begins at a multiple of a row. Returns null for null.
    static ORCHARD_INLINE lane_ptr from_address(T* address, tile t, std::uint32_t log_width) {
        static_assert(device::fits_tiles<T>,
                      "sizeof(T) must be a power of two, so that no element lies in two tiles: "
                      "pad it, with alignas");
        ORCHARD_ASSERT(t >= smallest_tile && t <= largest_tile, "orchard: lane_ptr: there is no such tile");
        ORCHARD_ASSERT(log_width <= 5, "orchard: lane_ptr: more than 32 lanes");
        ORCHARD_ASSERT(log_width == 0 || sizeof(T) <= bytes_of(t),
                       "orchard: lane_ptr: an element is larger than a tile");
        const auto a = reinterpret_cast<std::uint64_t>(address);
        ORCHARD_ASSERT(a <= device::lane_address_mask, "orchard: lane_ptr: an address of more than 56 bits");
        ORCHARD_ASSERT(log_width == 0 || a % sizeof(T) == 0, "orchard: lane_ptr: an element that is not aligned");
        lane_ptr result;
        result.bits_ = a == 0 ? 0
                              : a | std::uint64_t{log_of(t)} << device::lane_address_bits |
                                    std::uint64_t{log_width} << device::lane_width_shift;
        return result;
    }
    /// Returns a pointer that steps like a plain pointer: with one lane, the field of the position is empty. Null for
    /// null.
    static ORCHARD_INLINE lane_ptr linear(T* address) { return from_address(address, largest_tile, 0); }

    /// Returns the pointer that has these `bits()`, for passing it through a shuffle or an atomic word.
    static ORCHARD_INLINE lane_ptr from_bits(std::uint64_t bits) {
        lane_ptr result;
        result.bits_ = bits;
        return result;
    }

    /// Returns the same address and steps, for elements of another type.
    template <class U>
    [[nodiscard]] ORCHARD_INLINE lane_ptr<U> as() const {
        return lane_ptr<U>::from_address(reinterpret_cast<U*>(address()), tile_size(), log_width());
    }

    /// Returns the element's address.
    [[nodiscard]] ORCHARD_INLINE T* address() const {
        return simt::global_pointer<T>(bits_ & device::lane_address_mask);
    }
    [[nodiscard]] ORCHARD_INLINE tile tile_size() const { return static_cast<tile>(log_tile()); }
    /// Returns log2 of the lanes of the chunk; 0: linear.
    [[nodiscard]] ORCHARD_INLINE std::uint32_t log_width() const {
        return static_cast<std::uint32_t>(bits_ >> device::lane_width_shift);
    }
    /// Returns the position of the lane that owns the element.
    [[nodiscard]] ORCHARD_INLINE std::uint32_t position() const {
        return (static_cast<std::uint32_t>(bits_) & static_cast<std::uint32_t>(field())) >> log_tile();
    }
    /// Returns all 64 bits, as drawn above.
    [[nodiscard]] ORCHARD_INLINE constexpr std::uint64_t bits() const { return bits_; }

    ORCHARD_INLINE explicit operator bool() const { return bits_ != 0; }
    ORCHARD_INLINE T& operator*() const { return simt::touched(*address()); }
    ORCHARD_INLINE T* operator->() const { return &simt::touched(*address()); }
    template <class Index, device::if_integer<Index> = 0>
    ORCHARD_INLINE T& operator[](Index n) const {
        // The tag is masked before the addition, so that a loop masks it once.
        return simt::touched(*simt::global_pointer<T>(moved(bits_ & device::lane_address_mask, n)));
    }

    template <class Index, device::if_integer<Index> = 0>
    ORCHARD_INLINE lane_ptr& operator+=(Index n) {
        bits_ = moved(bits_, n);
        return *this;
    }
    template <class Index, device::if_integer<Index> = 0>
    ORCHARD_INLINE lane_ptr& operator-=(Index n) {
        // In 64 bits, since an unsigned number and the least negative number have no opposite in their own type.
        bits_ = moved(bits_, -static_cast<std::int64_t>(n));
        return *this;
    }
    /// One step is at most a tile, so that the carry alone leads to the next row.
    ORCHARD_INLINE lane_ptr& operator++() {
        bits_ = put_back((bits_ | field()) + sizeof(T));
        return *this;
    }
    /// As `++`, but the bits of the position are cleared first, and the borrow runs through them.
    ORCHARD_INLINE lane_ptr& operator--() {
        bits_ = put_back((bits_ & ~field()) - sizeof(T));
        return *this;
    }
    ORCHARD_INLINE lane_ptr operator++(int) {
        const lane_ptr before = *this;
        ++*this;
        return before;
    }
    ORCHARD_INLINE lane_ptr operator--(int) {
        const lane_ptr before = *this;
        --*this;
        return before;
    }

    template <class Index, device::if_integer<Index> = 0>
    friend ORCHARD_INLINE lane_ptr operator+(lane_ptr p, Index n) {
        return p += n;
    }
    template <class Index, device::if_integer<Index> = 0>
    friend ORCHARD_INLINE lane_ptr operator+(Index n, lane_ptr p) {
        return p += n;
    }
    template <class Index, device::if_integer<Index> = 0>
    friend ORCHARD_INLINE lane_ptr operator-(lane_ptr p, Index n) {
        return p -= n;
    }
    friend ORCHARD_INLINE std::ptrdiff_t operator-(lane_ptr a, lane_ptr b) {
        return static_cast<std::ptrdiff_t>(a.lane_offset() - b.lane_offset()) / static_cast<std::ptrdiff_t>(sizeof(T));
    }
    /// Within one array, all bits but those of row and byte are equal, so that comparing all bits is right.
    friend ORCHARD_INLINE constexpr bool operator==(lane_ptr a, lane_ptr b) { return a.bits_ == b.bits_; }
    friend ORCHARD_INLINE constexpr bool operator!=(lane_ptr a, lane_ptr b) { return a.bits_ != b.bits_; }
    friend ORCHARD_INLINE constexpr bool operator<(lane_ptr a, lane_ptr b) { return a.bits_ < b.bits_; }
    friend ORCHARD_INLINE constexpr bool operator>(lane_ptr a, lane_ptr b) { return a.bits_ > b.bits_; }
    friend ORCHARD_INLINE constexpr bool operator<=(lane_ptr a, lane_ptr b) { return a.bits_ <= b.bits_; }
    friend ORCHARD_INLINE constexpr bool operator>=(lane_ptr a, lane_ptr b) { return a.bits_ >= b.bits_; }

private:
    [[nodiscard]] ORCHARD_INLINE std::uint32_t log_tile() const {
        return static_cast<std::uint32_t>(bits_ >> device::lane_address_bits) & 31;
    }
    /// Returns a mask of the lane's position, which lies in the lowest 21 bits.
    [[nodiscard]] ORCHARD_INLINE std::uint64_t field() const {
        // Not log_tile(): `bit_range` ignores the bits above the first operand's width.
        return simt::bit_range(static_cast<std::uint32_t>(bits_ >> device::lane_address_bits), log_width());
    }
    /// Returns `stepped` with the lane's position as it was before the step.
    [[nodiscard]] ORCHARD_INLINE std::uint64_t put_back(std::uint64_t stepped) const {
        return (stepped & ~field()) | (bits_ & field());
    }
    /// Returns `from`, which is `bits_` with or without the tag, moved by n elements, which may be negative. A tag
    /// stays as it is, since an address within the array does not carry into it.
    template <class Index, device::if_integer<Index> = 0>
    [[nodiscard]] ORCHARD_INLINE std::uint64_t moved(std::uint64_t from, Index n) const {
        static_assert(device::fits_tiles<T>);
        constexpr std::uint32_t size = sizeof(T);
        const std::uint32_t in_tile = (std::uint32_t{1} << log_tile()) / size - 1;
        const std::uint32_t gap = ((std::uint32_t{1} << log_width()) - 1) * size;
        return put_back(device::advance<size>(from | field(), n, in_tile, gap));
    }
    /// Returns the element's offset among its lane's bytes, plus a constant that is the same for the whole array. The
    /// field of the lane's position is cut out: the row moves down to its place. The difference of two such offsets is
    /// a number of bytes of the lane, hence the difference of two pointers.
    [[nodiscard]] ORCHARD_INLINE std::uint64_t lane_offset() const {
        const std::uint64_t address = bits_ & device::lane_address_mask;
        const std::uint64_t in_tile = (std::uint64_t{1} << log_tile()) - 1;
        return (address & in_tile) | ((address >> log_width()) & ~in_tile);
    }

    std::uint64_t bits_ = 0;
};

static_assert(sizeof(lane_ptr<int>) == 8 && std::is_trivially_copyable_v<lane_ptr<int>>);

}  // namespace orchard
