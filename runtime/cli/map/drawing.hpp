// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// What a picture of a map is drawn on: rectangles and lines of text, whose unit is a pixel.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cli/map/map_colours.hpp"

namespace orchard::command_line {

/// A picture that is being drawn. Later parts lie above earlier ones.
class drawing {
public:
    drawing() = default;
    drawing(const drawing&) = delete;
    drawing& operator=(const drawing&) = delete;
    virtual ~drawing() = default;

    /// Draws a rectangle with its upper left corner at (x, y).
    virtual void rectangle(double x, double y, double width, double height, colour fill) = 0;
    /// Writes `text`, of printable ASCII characters, about 6 units wide each; its upper left corner is at (x, y), or
    /// its upper right one with `ends_there`.
    virtual void text(double x, double y, std::string_view text, colour fill, bool ends_there = false) = 0;
    /// Returns the file. It is called once.
    virtual std::string file() = 0;
};

/// The picture as SVG.
class svg_drawing final : public drawing {
public:
    svg_drawing(int width, int height);
    void rectangle(double x, double y, double width, double height, colour fill) override;
    void text(double x, double y, std::string_view text, colour fill, bool ends_there) override;
    std::string file() override;

private:
    std::string all_;
};

/// The picture as PNG: two pixels a unit, so that text is legible on all screens.
class png_drawing final : public drawing {
public:
    png_drawing(int width, int height);
    void rectangle(double x, double y, double width, double height, colour fill) override;
    void text(double x, double y, std::string_view text, colour fill, bool ends_there) override;
    std::string file() override;

private:
    static constexpr int scale = 2;
    void fill(int x, int y, int width, int height, colour with);

    int width_;
    int height_;
    std::vector<colour> pixels_;  ///< [height_][width_]
};

}  // namespace orchard::command_line
