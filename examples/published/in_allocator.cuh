// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Adds the applications that run in any allocator: `orchard walk --allocator NAME`, `orchard tree --allocator NAME`,
/// `orchard graph --allocator NAME`.

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "examples/published/graph_memory.cuh"
#include "examples/published/owners.hpp"
#include "examples/report/other_allocators.hpp"
#include "examples/trees/tree_steps.cuh"
#include "examples/walk/walk_run.hpp"
#include "examples/walk/walk_steps.cuh"

namespace orchard::examples {

/// An object that adds one allocator to the applications, before `main`.
struct applications_in {
    /// @param create   `absl::StatusOr<Owner>(const simt::executor&, std::uint64_t bytes)`; `Owner::ref()` is the view
    ///     for kernels
    /// @param largest  the bytes of the largest block in so many bytes of memory
    template <class Create>
    applications_in(const std::string& name, Create create, std::uint64_t (*largest)(std::uint64_t)) {
        other_allocators<walk_in_allocator>()[name] = [=](const simt::executor& on, std::uint64_t bytes,
                                                          const edge_list& graph, const walk_options& options,
                                                          command_line::progress& bar) -> absl::StatusOr<walk_result> {
            const auto made = create(on, bytes);
            if (!made.ok()) {
                return named(name, largest(bytes), made.status());
            }
            walk_options fitting = options;
            fitting.log_bytes = std::min(fitting.log_bytes, largest(bytes));
            auto result = run_walk_in(on, made->ref(), nullptr, graph, fitting, bar);
            return result.ok() ? std::move(result) : named(name, largest(bytes), result.status());
        };
        other_allocators<tree_in_allocator>()[name] =
            [=](const simt::executor& on, std::uint64_t bytes, std::span<const key_pair> edges, std::uint32_t keys,
                std::uint64_t threads, int repeats, command_line::progress& bar) -> absl::StatusOr<search_tree_result> {
            const auto made = create(on, bytes);
            if (!made.ok()) {
                return named(name, largest(bytes), made.status());
            }
            search_tree_result result;
            const absl::Status s = repeat_search_tree(
                timed(on), made->ref(), [] { return absl::OkStatus(); }, edges, keys, threads, repeats, bar, result);
            return s.ok() ? absl::StatusOr<search_tree_result>(std::move(result)) : named(name, largest(bytes), s);
        };
        other_allocators<graph_in_allocator>()[name] = graphs_in(name, create, largest);
    }

private:
    static absl::Status named(const std::string& name, std::uint64_t largest, const absl::Status& s) {
        std::string text = absl::StrCat(name, ": ", s.message());
        if (absl::IsResourceExhausted(s) && largest != any_size(0)) {
            absl::StrAppend(&text, "; its largest block has ", largest, " B");
        }
        return absl::Status(s.code(), text);
    }
};

}  // namespace orchard::examples
