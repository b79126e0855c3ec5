// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Makes a file of the form of a cubin: symbols of functions, and no code.

#include <elf.h>

#include <cstdint>
#include <string>
#include <vector>

namespace orchard::profiling::test {

struct cubin_function {
    std::string name;
    std::uint64_t begin;
    std::uint64_t bytes;
};

/// Returns a cubin with one kernel, in whose section these functions lie.
///
///     header | names | symbols | section headers: none, names, symbols, .text.KERNEL
inline std::string make_cubin(const std::string& kernel, const std::vector<cubin_function>& functions) {
    const auto bytes_of = [](const auto& object) {
        return std::string(reinterpret_cast<const char*>(&object), sizeof(object));
    };
    std::string names(1, '\0');
    const auto add_name = [&](const std::string& name) {
        const auto at = static_cast<Elf64_Word>(names.size());
        names += name + '\0';
        return at;
    };
    constexpr Elf64_Half text = 3;
    std::string symbols = bytes_of(Elf64_Sym{});
    for (const cubin_function& f : functions) {
        Elf64_Sym s{};
        s.st_name = add_name(f.name);
        s.st_info = ELF64_ST_INFO(STB_LOCAL, STT_FUNC);
        s.st_shndx = text;
        s.st_value = f.begin;
        s.st_size = f.bytes;
        symbols += bytes_of(s);
    }
    Elf64_Shdr sections[4] = {};
    sections[1].sh_type = SHT_STRTAB;
    sections[1].sh_offset = sizeof(Elf64_Ehdr);
    sections[2].sh_type = SHT_SYMTAB;
    sections[2].sh_link = 1;
    sections[2].sh_size = symbols.size();
    sections[text].sh_type = SHT_PROGBITS;
    sections[text].sh_name = add_name(".text." + kernel);
    sections[1].sh_size = names.size();
    sections[2].sh_offset = sections[1].sh_offset + names.size();
    Elf64_Ehdr header{};
    for (int i = 0; i < SELFMAG; ++i) {
        header.e_ident[i] = static_cast<unsigned char>(ELFMAG[i]);
    }
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shnum = 4;
    header.e_shstrndx = 1;
    header.e_shoff = sections[2].sh_offset + symbols.size();
    return bytes_of(header) + names + symbols + bytes_of(sections);
}

}  // namespace orchard::profiling::test
