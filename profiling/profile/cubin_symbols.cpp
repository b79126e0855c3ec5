// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Reads the tables of symbols of a cubin; cubin_symbols.hpp has the interface.
///
///     add
///       array_at        a table of the file, if it lies within
///       text_at         a name from a table of names

#include "profiling/profile/cubin_symbols.hpp"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace orchard::profiling {
namespace {

constexpr std::string_view text_section = ".text.";

/// Returns the `count` objects at `offset`; none if they do not lie within the file.
template <class T>
std::vector<T> array_at(std::string_view file, std::uint64_t offset, std::uint64_t count) {
    if (offset > file.size() || count > (file.size() - offset) / sizeof(T)) {
        return {};
    }
    std::vector<T> found(count);
    if (count != 0) {
        std::memcpy(found.data(), file.data() + offset, count * sizeof(T));
    }
    return found;
}

/// Returns the text at `offset` of a section of texts that end with a 0; empty if it has none there.
std::string text_at(std::string_view file, const Elf64_Shdr& texts, std::uint64_t offset) {
    if (texts.sh_offset > file.size() || texts.sh_size > file.size() - texts.sh_offset || offset >= texts.sh_size) {
        return "";
    }
    const std::string_view rest = file.substr(texts.sh_offset + offset, texts.sh_size - offset);
    const std::size_t end = rest.find('\0');
    return std::string(end == std::string_view::npos ? std::string_view() : rest.substr(0, end));
}

/// Returns a function's name without the kernel's before it: "f" of "$kernel$f".
std::string without_kernel(const std::string& name, const std::string& kernel) {
    const std::string prefix = "$" + kernel + "$";
    return name.compare(0, prefix.size(), prefix) == 0 ? name.substr(prefix.size()) : name;
}

}  // namespace

void cubin_symbols::add(std::uint64_t crc, std::string_view cubin) {
    if (!added_.insert(crc).second) {
        return;  // loaded before, by this or another context
    }
    const auto headers = array_at<Elf64_Ehdr>(cubin, 0, 1);
    if (headers.empty() || std::memcmp(headers[0].e_ident, ELFMAG, SELFMAG) != 0 ||
        headers[0].e_ident[EI_CLASS] != ELFCLASS64 || headers[0].e_shentsize != sizeof(Elf64_Shdr)) {
        return;
    }
    const auto sections = array_at<Elf64_Shdr>(cubin, headers[0].e_shoff, headers[0].e_shnum);
    if (headers[0].e_shstrndx >= sections.size()) {
        return;
    }
    for (const Elf64_Shdr& table : sections) {
        if (table.sh_type != SHT_SYMTAB || table.sh_link >= sections.size()) {
            continue;
        }
        for (const Elf64_Sym& s : array_at<Elf64_Sym>(cubin, table.sh_offset, table.sh_size / sizeof(Elf64_Sym))) {
            if (ELF64_ST_TYPE(s.st_info) != STT_FUNC || s.st_shndx >= sections.size()) {
                continue;
            }
            const std::string section = text_at(cubin, sections[headers[0].e_shstrndx], sections[s.st_shndx].sh_name);
            if (section.compare(0, text_section.size(), text_section) != 0) {
                continue;
            }
            const std::string kernel = section.substr(text_section.size());
            const std::string name = without_kernel(text_at(cubin, sections[table.sh_link], s.st_name), kernel);
            if (!name.empty()) {
                functions_[{crc, kernel}].push_back({s.st_value, s.st_value + s.st_size, name});
            }
        }
    }
}

/// The kernel's own symbol may be as long as the section: of the functions around an offset, the one that begins last
/// counts.
std::string cubin_symbols::function_at(std::uint64_t crc, const std::string& kernel, std::uint64_t offset) const {
    const auto found = functions_.find({crc, kernel});
    if (found == functions_.end()) {
        return kernel;
    }
    const function* last = nullptr;
    for (const function& f : found->second) {
        if (f.begin <= offset && offset < f.end && (last == nullptr || f.begin > last->begin)) {
            last = &f;
        }
    }
    return last == nullptr ? kernel : last->name;
}

}  // namespace orchard::profiling
