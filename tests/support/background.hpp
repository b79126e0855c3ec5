// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <functional>
#include <stop_token>
#include <thread>
#include <utility>

namespace orchard::rig {

/// Calls a function repeatedly, in a thread of its own, until it is destroyed.
class background {
public:
    explicit background(std::function<void()> turn)
        : thread_{[turn = std::move(turn)](const std::stop_token& stop) {
              while (!stop.stop_requested()) {
                  turn();
                  std::this_thread::yield();
              }
          }} {}

private:
    std::jthread thread_;
};

}  // namespace orchard::rig
