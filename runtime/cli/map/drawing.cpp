// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The two kinds of picture files. PNG has glyphs of 5 x 8 dots, since the program has no font: a byte is a column, and
/// its lowest bit the upper dot.
///
///     A    . # # # .      7e 11 11 11 7e
///          # . . . #
///          # . . . #
///          # . . . #
///          # # # # #
///          # . . . #
///          # . . . #

#include "runtime/cli/map/drawing.hpp"

#include <zlib.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace orchard::command_line {
namespace {

constexpr int glyph_width = 5;
constexpr int glyph_height = 8;  // one of them for the lower ends of g, j, p, q, y
constexpr int advance = 6;
constexpr char first_glyph = ' ';
constexpr char last_glyph = '~';

// clang-format off
constexpr unsigned char glyphs[last_glyph - first_glyph + 1][glyph_width] = {
    {0x00, 0x00, 0x00, 0x00, 0x00}, {0x00, 0x00, 0x5f, 0x00, 0x00}, {0x00, 0x07, 0x00, 0x07, 0x00},  // blank ! "
    {0x14, 0x7f, 0x14, 0x7f, 0x14}, {0x24, 0x2a, 0x7f, 0x2a, 0x12}, {0x23, 0x13, 0x08, 0x64, 0x62},  // # $ %
    {0x36, 0x49, 0x55, 0x22, 0x50}, {0x00, 0x05, 0x03, 0x00, 0x00}, {0x00, 0x1c, 0x22, 0x41, 0x00},  // & ' (
    {0x00, 0x41, 0x22, 0x1c, 0x00}, {0x14, 0x08, 0x3e, 0x08, 0x14}, {0x08, 0x08, 0x3e, 0x08, 0x08},  // ) * +
    {0x00, 0xa0, 0x60, 0x00, 0x00}, {0x08, 0x08, 0x08, 0x08, 0x08}, {0x00, 0x60, 0x60, 0x00, 0x00},  // , - .
    {0x20, 0x10, 0x08, 0x04, 0x02}, {0x3e, 0x51, 0x49, 0x45, 0x3e}, {0x00, 0x42, 0x7f, 0x40, 0x00},  // / 0 1
    {0x42, 0x61, 0x51, 0x49, 0x46}, {0x21, 0x41, 0x45, 0x4b, 0x31}, {0x18, 0x14, 0x12, 0x7f, 0x10},  // 2 3 4
    {0x27, 0x45, 0x45, 0x45, 0x39}, {0x3c, 0x4a, 0x49, 0x49, 0x30}, {0x01, 0x71, 0x09, 0x05, 0x03},  // 5 6 7
    {0x36, 0x49, 0x49, 0x49, 0x36}, {0x06, 0x49, 0x49, 0x29, 0x1e}, {0x00, 0x36, 0x36, 0x00, 0x00},  // 8 9 :
    {0x00, 0x56, 0x36, 0x00, 0x00}, {0x08, 0x14, 0x22, 0x41, 0x00}, {0x14, 0x14, 0x14, 0x14, 0x14},  // ; < =
    {0x00, 0x41, 0x22, 0x14, 0x08}, {0x02, 0x01, 0x51, 0x09, 0x06}, {0x32, 0x49, 0x79, 0x41, 0x3e},  // > ? @
    {0x7e, 0x11, 0x11, 0x11, 0x7e}, {0x7f, 0x49, 0x49, 0x49, 0x36}, {0x3e, 0x41, 0x41, 0x41, 0x22},  // A B C
    {0x7f, 0x41, 0x41, 0x22, 0x1c}, {0x7f, 0x49, 0x49, 0x49, 0x41}, {0x7f, 0x09, 0x09, 0x09, 0x01},  // D E F
    {0x3e, 0x41, 0x49, 0x49, 0x7a}, {0x7f, 0x08, 0x08, 0x08, 0x7f}, {0x00, 0x41, 0x7f, 0x41, 0x00},  // G H I
    {0x20, 0x40, 0x41, 0x3f, 0x01}, {0x7f, 0x08, 0x14, 0x22, 0x41}, {0x7f, 0x40, 0x40, 0x40, 0x40},  // J K L
    {0x7f, 0x02, 0x0c, 0x02, 0x7f}, {0x7f, 0x04, 0x08, 0x10, 0x7f}, {0x3e, 0x41, 0x41, 0x41, 0x3e},  // M N O
    {0x7f, 0x09, 0x09, 0x09, 0x06}, {0x3e, 0x41, 0x51, 0x21, 0x5e}, {0x7f, 0x09, 0x19, 0x29, 0x46},  // P Q R
    {0x46, 0x49, 0x49, 0x49, 0x31}, {0x01, 0x01, 0x7f, 0x01, 0x01}, {0x3f, 0x40, 0x40, 0x40, 0x3f},  // S T U
    {0x1f, 0x20, 0x40, 0x20, 0x1f}, {0x3f, 0x40, 0x38, 0x40, 0x3f}, {0x63, 0x14, 0x08, 0x14, 0x63},  // V W X
    {0x07, 0x08, 0x70, 0x08, 0x07}, {0x61, 0x51, 0x49, 0x45, 0x43}, {0x00, 0x7f, 0x41, 0x41, 0x00},  // Y Z [
    {0x02, 0x04, 0x08, 0x10, 0x20}, {0x00, 0x41, 0x41, 0x7f, 0x00}, {0x04, 0x02, 0x01, 0x02, 0x04},  // backslash ] ^
    {0x40, 0x40, 0x40, 0x40, 0x40}, {0x00, 0x01, 0x02, 0x04, 0x00}, {0x20, 0x54, 0x54, 0x54, 0x78},  // _ ` a
    {0x7f, 0x48, 0x44, 0x44, 0x38}, {0x38, 0x44, 0x44, 0x44, 0x20}, {0x38, 0x44, 0x44, 0x48, 0x7f},  // b c d
    {0x38, 0x54, 0x54, 0x54, 0x18}, {0x08, 0x7e, 0x09, 0x01, 0x02}, {0x18, 0xa4, 0xa4, 0xa4, 0x7c},  // e f g
    {0x7f, 0x08, 0x04, 0x04, 0x78}, {0x00, 0x44, 0x7d, 0x40, 0x00}, {0x40, 0x80, 0x84, 0x7d, 0x00},  // h i j
    {0x7f, 0x10, 0x28, 0x44, 0x00}, {0x00, 0x41, 0x7f, 0x40, 0x00}, {0x7c, 0x04, 0x18, 0x04, 0x78},  // k l m
    {0x7c, 0x08, 0x04, 0x04, 0x78}, {0x38, 0x44, 0x44, 0x44, 0x38}, {0xfc, 0x24, 0x24, 0x24, 0x18},  // n o p
    {0x18, 0x24, 0x24, 0x24, 0xfc}, {0x7c, 0x08, 0x04, 0x04, 0x08}, {0x48, 0x54, 0x54, 0x54, 0x20},  // q r s
    {0x04, 0x3f, 0x44, 0x40, 0x20}, {0x3c, 0x40, 0x40, 0x20, 0x7c}, {0x1c, 0x20, 0x40, 0x20, 0x1c},  // t u v
    {0x3c, 0x40, 0x30, 0x40, 0x3c}, {0x44, 0x28, 0x10, 0x28, 0x44}, {0x1c, 0xa0, 0xa0, 0xa0, 0x7c},  // w x y
    {0x44, 0x64, 0x54, 0x4c, 0x44}, {0x00, 0x08, 0x36, 0x41, 0x00}, {0x00, 0x00, 0x7f, 0x00, 0x00},  // z { |
    {0x00, 0x41, 0x36, 0x08, 0x00}, {0x08, 0x04, 0x08, 0x10, 0x08}};                                 // } ~
// clang-format on

std::string number(double value) { return absl::StrFormat("%.6g", std::round(value * 100) / 100); }

/// Appends a big-endian number of 32 bits, as PNG has them.
void append_u32(std::string& to, std::uint32_t value) {
    for (const int shift : {24, 16, 8, 0}) {
        to += static_cast<char>(value >> shift & 0xff);
    }
}

/// Appends a PNG chunk: length, type, data, checksum of type and data.
void append_chunk(std::string& to, const char* type, const std::string& data) {
    append_u32(to, static_cast<std::uint32_t>(data.size()));
    const std::string body = type + data;
    to += body;
    append_u32(to, static_cast<std::uint32_t>(
                       ::crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()))));
}

}  // namespace

svg_drawing::svg_drawing(int width, int height)
    : all_{absl::StrFormat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
                           "font-family=\"DejaVu Sans, sans-serif\" font-size=\"11\" shape-rendering=\"crispEdges\">\n",
                           width, height, width, height)} {
    rectangle(0, 0, width, height, map_colours::background);
}

void svg_drawing::rectangle(double x, double y, double width, double height, colour fill) {
    if (width > 0 && height > 0) {
        absl::StrAppend(&all_, "<rect x=\"", number(x), "\" y=\"", number(y), "\" width=\"", number(width),
                        "\" height=\"", number(height), absl::StrFormat("\" fill=\"#%06x\"/>\n", fill));
    }
}

/// A baseline lies 10 units below the upper edge of a line.
void svg_drawing::text(double x, double y, std::string_view text, colour fill, bool ends_there) {
    if (text.empty()) {
        return;
    }
    const std::string escaped =
        absl::StrReplaceAll(absl::string_view(text.data(), text.size()), {{"&", "&amp;"}, {"<", "&lt;"}});
    absl::StrAppend(&all_, "<text x=\"", number(x), "\" y=\"", number(y + 10),
                    absl::StrFormat("\" fill=\"#%06x\"%s>", fill, ends_there ? " text-anchor=\"end\"" : ""), escaped,
                    "</text>\n");
}

std::string svg_drawing::file() { return all_ + "</svg>\n"; }

png_drawing::png_drawing(int width, int height)
    : width_{width * scale},
      height_{height * scale},
      pixels_(static_cast<std::size_t>(width_) * static_cast<std::size_t>(height_), map_colours::background) {}

void png_drawing::fill(int x, int y, int width, int height, colour with) {
    for (int row = std::max(y, 0); row < std::min(y + height, height_); ++row) {
        for (int column = std::max(x, 0); column < std::min(x + width, width_); ++column) {
            pixels_[static_cast<std::size_t>(row) * static_cast<std::size_t>(width_) +
                    static_cast<std::size_t>(column)] = with;
        }
    }
}

/// A part that is not 0 has a pixel at least: a leaf of a small segment would vanish otherwise.
void png_drawing::rectangle(double x, double y, double width, double height, colour with) {
    if (width <= 0 || height <= 0) {
        return;
    }
    const auto pixel = [](double at) { return static_cast<int>(std::lround(at * scale)); };
    const int left = pixel(x);
    const int top = pixel(y);
    fill(left, top, std::max(pixel(x + width) - left, 1), std::max(pixel(y + height) - top, 1), with);
}

void png_drawing::text(double x, double y, std::string_view text, colour with, bool ends_there) {
    constexpr int above = 3;  // units between the upper edge of a line and that of its glyphs
    const double width = static_cast<double>(text.size()) * advance - 1;
    int left = static_cast<int>(std::lround((ends_there ? x - width : x) * scale));
    const int top = static_cast<int>(std::lround((y + above) * scale));
    for (const char c : text) {
        const auto& glyph = glyphs[(c >= first_glyph && c <= last_glyph ? c : '?') - first_glyph];
        for (int column = 0; column < glyph_width; ++column) {
            for (int row = 0; row < glyph_height; ++row) {
                if ((glyph[column] >> row & 1) != 0) {
                    fill(left + column * scale, top + row * scale, scale, scale, with);
                }
            }
        }
        left += advance * scale;
    }
}

/// Every row begins with the number of its filter, 0: none. The rows are one stream of zlib.
std::string png_drawing::file() {
    std::string rows;
    rows.reserve((static_cast<std::size_t>(width_) * 3 + 1) * static_cast<std::size_t>(height_));
    for (std::size_t i = 0; i < pixels_.size(); ++i) {
        if (i % static_cast<std::size_t>(width_) == 0) {
            rows += '\0';
        }
        for (const int shift : {16, 8, 0}) {
            rows += static_cast<char>(pixels_[i] >> shift & 0xff);
        }
    }
    uLongf size = ::compressBound(rows.size());
    std::string packed(size, '\0');
    // Fails for lack of memory alone, of which it needs less than the rows.
    if (::compress2(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(rows.data()),
                    rows.size(), Z_BEST_COMPRESSION) != Z_OK) {
        return "";
    }
    packed.resize(size);
    std::string header;
    append_u32(header, static_cast<std::uint32_t>(width_));
    append_u32(header, static_cast<std::uint32_t>(height_));
    header += std::string("\x08\x02\x00\x00\x00", 5);  // 8 bits, three channels, no options
    std::string png = "\x89PNG\r\n\x1a\n";
    append_chunk(png, "IHDR", header);
    append_chunk(png, "IDAT", packed);
    append_chunk(png, "IEND", "");
    return png;
}

}  // namespace orchard::command_line
