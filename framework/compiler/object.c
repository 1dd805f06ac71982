// framework/compiler/object.c - an x86-64 ELF object file made callable in this process
//
// The mapping begins with executable pages (text, then a slot with a jump and an address for each
// symbol reached by address); read-only data follows on a new page.
#include "framework/compiler/object.h"

#include <elf.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "framework/base/mem.h"

enum { SLOT_BYTES = 16, SLOT_ADDRESS = 8, MOST_SECTIONS = 4096, MOST_BYTES = 64 << 20 };

typedef struct symbol {
    char *name; // owned
    void *address;
} symbol;

// State of the loader for one file.
typedef struct loading {
    const unsigned char *bytes; // borrowed [size]
    uint64_t size;
    const Elf64_Shdr *sections; // copies: the file need not be aligned. Owned [section_count]
    int section_count;
    uint64_t *place;          // owned [section_count]: offset in the mapping; NOWHERE: not loaded
    const Elf64_Sym *symbols; // owned [symbol_count]
    uint64_t symbol_count;
    const char *names; // [names_bytes], zero at its end
    uint64_t names_bytes;
    uint64_t slots, text_bytes, all_bytes; // offsets in the mapping
    unsigned char *memory;
} loading;

#define NOWHERE UINT64_MAX

#define X(f)                                                                                       \
    {                                                                                              \
#f, (void *)(uintptr_t)(f)                                                                 \
    }
// The external functions that generated code may call.
static void *external(const char *name)
{
    const struct {
        const char *name;
        void *address;
    } known[] = {X(exp),   X(expf), X(log),  X(logf),   X(tanh),
                 X(tanhf), X(fma),  X(fmaf), X(memcpy), X(memset)};
    for (size_t i = 0; i < sizeof known / sizeof *known; ++i) {
        if (strcmp(known[i].name, name) == 0) {
            return known[i].address;
        }
    }
    return NULL;
}
#undef X

static bt_status damaged(const char *what)
{
    return bt_error(BT_STATUS_CORRUPT_DATA, "object file: %s", what);
}

static bool within(const loading *l, uint64_t offset, uint64_t size)
{
    return offset <= l->size && size <= l->size - offset;
}

// A copy of an array of the file. Errors  CORRUPT_DATA, OUT_OF_MEMORY
static bt_status copy_table(const loading *l, uint64_t offset, uint64_t count, size_t item_bytes,
                            const char *what, void **out)
{
    if (count > l->size / item_bytes || !within(l, offset, count * item_bytes)) {
        return damaged(what);
    }
    BT_TRY(bt_mem_alloc((size_t)count, item_bytes, out));
    memcpy(*out, l->bytes + offset, (size_t)count * item_bytes);
    return BT_OK;
}

static bt_status read_sections(loading *l)
{
    Elf64_Ehdr head;
    if (l->size < sizeof head) {
        return damaged("shorter than its header");
    }
    memcpy(&head, l->bytes, sizeof head);
    if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
        head.e_type != ET_REL || head.e_machine != EM_X86_64 ||
        head.e_shentsize != sizeof(Elf64_Shdr) || head.e_shnum > MOST_SECTIONS) {
        return damaged("not a relocatable x86-64 file");
    }
    void *block = NULL;
    BT_TRY(copy_table(l, head.e_shoff, head.e_shnum, sizeof(Elf64_Shdr), "section table", &block));
    l->sections = block;
    l->section_count = head.e_shnum;
    for (int i = 0; i < l->section_count; ++i) {
        const Elf64_Shdr *s = &l->sections[i];
        if (s->sh_type != SHT_NOBITS && !within(l, s->sh_offset, s->sh_size)) {
            return damaged("a section ends past the file");
        }
    }
    return BT_OK;
}

static bt_status read_symbols(loading *l)
{
    for (int i = 0; i < l->section_count; ++i) {
        const Elf64_Shdr *s = &l->sections[i];
        if (s->sh_type != SHT_SYMTAB || l->symbols) {
            continue;
        }
        if (s->sh_link >= (uint32_t)l->section_count ||
            l->sections[s->sh_link].sh_type != SHT_STRTAB || l->sections[s->sh_link].sh_size == 0) {
            return damaged("symbols without names");
        }
        const Elf64_Shdr *names = &l->sections[s->sh_link];
        void *block = NULL;
        l->names = (const char *)l->bytes + names->sh_offset;
        l->names_bytes = names->sh_size;
        l->symbol_count = s->sh_size / sizeof(Elf64_Sym);
        if (l->names[l->names_bytes - 1]) {
            return damaged("symbol names have no end");
        }
        BT_TRY(copy_table(l, s->sh_offset, l->symbol_count, sizeof(Elf64_Sym), "symbols", &block));
        l->symbols = block;
    }
    for (uint64_t i = 0; i < l->symbol_count; ++i) {
        if (l->symbols[i].st_name >= l->names_bytes) {
            return damaged("a symbol's name lies outside");
        }
    }
    return l->symbols ? BT_OK : damaged("no symbols");
}

static uint64_t aligned(uint64_t offset, uint64_t alignment)
{
    return (offset + alignment - 1) & ~(alignment - 1);
}

static bool is_loaded(const Elf64_Shdr *s)
{
    return (s->sh_flags & SHF_ALLOC) && s->sh_type == SHT_PROGBITS && s->sh_size > 0;
}

static bt_status place_kind(loading *l, bool executed, uint64_t *at)
{
    for (int i = 0; i < l->section_count; ++i) {
        const Elf64_Shdr *s = &l->sections[i];
        if (!is_loaded(s) || !(s->sh_flags & SHF_EXECINSTR) != !executed) {
            continue;
        }
        const uint64_t alignment = s->sh_addralign ? s->sh_addralign : 1;
        if ((alignment & (alignment - 1)) || alignment > 4096 || *at > MOST_BYTES) {
            return damaged("alignment or size of a section");
        }
        l->place[i] = aligned(*at, alignment);
        *at = l->place[i] + s->sh_size;
    }
    return *at > MOST_BYTES ? damaged("larger than any kernel") : BT_OK;
}

static bt_status place_sections(loading *l)
{
    void *block = NULL;
    BT_TRY(bt_mem_alloc((size_t)l->section_count, sizeof(uint64_t), &block));
    l->place = block;
    for (int i = 0; i < l->section_count; ++i) {
        const Elf64_Shdr *s = &l->sections[i];
        l->place[i] = NOWHERE;
        if (s->sh_size > 0 && (s->sh_flags & SHF_ALLOC) && (s->sh_flags & SHF_WRITE)) {
            return bt_error(BT_STATUS_UNSUPPORTED, "object file: it has variables");
        }
    }
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t at = 0;
    BT_TRY(place_kind(l, true, &at));
    l->slots = aligned(at, SLOT_BYTES);
    at = aligned(l->slots + l->symbol_count * SLOT_BYTES, page);
    l->text_bytes = at;
    BT_TRY(place_kind(l, false, &at));
    l->all_bytes = aligned(at, page);
    return BT_OK;
}

static bt_status map_sections(loading *l)
{
    void *memory = mmap(NULL, (size_t)l->all_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return bt_error(BT_STATUS_OUT_OF_MEMORY, "%llu bytes for generated code",
                        (unsigned long long)l->all_bytes);
    }
    l->memory = memory;
    for (int i = 0; i < l->section_count; ++i) {
        const Elf64_Shdr *s = &l->sections[i];
        if (l->place[i] != NOWHERE) {
            memcpy(l->memory + l->place[i], l->bytes + s->sh_offset, (size_t)s->sh_size);
        }
    }
    return BT_OK;
}

// The address of a symbol.
static bt_status address_of(const loading *l, const Elf64_Sym *s, uint64_t *address)
{
    const char *name = l->names + s->st_name;
    if (s->st_shndx == SHN_UNDEF) {
        *address = (uint64_t)(uintptr_t)external(name);
        return *address ? BT_OK
                        : bt_error(BT_STATUS_UNSUPPORTED,
                                   "object file: generated code calls %s, which is not provided",
                                   *name ? name : "a nameless function");
    }
    if (s->st_shndx >= l->section_count || l->place[s->st_shndx] == NOWHERE ||
        s->st_value > l->sections[s->st_shndx].sh_size) {
        return damaged("a symbol lies outside of its section");
    }
    *address = (uint64_t)(uintptr_t)l->memory + l->place[s->st_shndx] + s->st_value;
    return BT_OK;
}

// The slot of symbol i: "jmp [address]", then the address.
static uint64_t slot_of(loading *l, uint64_t i, uint64_t address)
{
    static const unsigned char jump[SLOT_ADDRESS] = {0xFF, 0x25, SLOT_ADDRESS - 6, 0, 0, 0, 0, 0};
    unsigned char *slot = l->memory + l->slots + i * SLOT_BYTES;
    memcpy(slot, jump, sizeof jump);
    memcpy(slot + SLOT_ADDRESS, &address, sizeof address);
    return (uint64_t)(uintptr_t)slot;
}

static bt_status relocate(loading *l, int target, const Elf64_Rela *r)
{
    const uint64_t i = ELF64_R_SYM(r->r_info), type = ELF64_R_TYPE(r->r_info);
    const uint64_t width = type == R_X86_64_64 ? 8 : 4, room = l->sections[target].sh_size;
    if (i >= l->symbol_count || r->r_offset > room || width > room - r->r_offset) {
        return damaged("a relocation lies outside");
    }
    unsigned char *at = l->memory + l->place[target] + r->r_offset;
    uint64_t address = 0;
    BT_TRY(address_of(l, &l->symbols[i], &address));
    switch (type) {
    case R_X86_64_64:
        address += (uint64_t)r->r_addend;
        memcpy(at, &address, sizeof address);
        return BT_OK;
    case R_X86_64_PC32:
    case R_X86_64_PLT32:
        address = l->symbols[i].st_shndx == SHN_UNDEF ? slot_of(l, i, address) : address;
        break;
    case R_X86_64_GOTPCREL:
    case R_X86_64_GOTPCRELX:
    case R_X86_64_REX_GOTPCRELX:
        address = slot_of(l, i, address) + SLOT_ADDRESS;
        break;
    default:
        return bt_error(BT_STATUS_UNSUPPORTED, "object file: relocation of type %u",
                        (unsigned)type);
    }
    const int64_t distance = (int64_t)(address + (uint64_t)r->r_addend - (uint64_t)(uintptr_t)at);
    const int32_t stored = (int32_t)distance;
    if (stored != distance) {
        return damaged("a relocation is out of range");
    }
    memcpy(at, &stored, sizeof stored);
    return BT_OK;
}

static bt_status relocate_all(loading *l)
{
    for (int i = 0; i < l->section_count; ++i) {
        const Elf64_Shdr *s = &l->sections[i];
        if (s->sh_type == SHT_REL) {
            return bt_error(BT_STATUS_UNSUPPORTED, "object file: relocations without addends");
        }
        if (s->sh_type != SHT_RELA || s->sh_info >= (uint32_t)l->section_count ||
            l->place[s->sh_info] == NOWHERE) {
            continue; // for example debug information
        }
        for (uint64_t at = 0; at + sizeof(Elf64_Rela) <= s->sh_size; at += sizeof(Elf64_Rela)) {
            Elf64_Rela relocation;
            memcpy(&relocation, l->bytes + s->sh_offset + at, sizeof relocation);
            BT_TRY(relocate(l, (int)s->sh_info, &relocation));
        }
    }
    return BT_OK;
}

static bt_status keep_functions(const loading *l, bt_object *out)
{
    void *block = NULL;
    BT_TRY(bt_mem_alloc((size_t)l->symbol_count, sizeof(symbol), &block));
    out->symbols = block;
    for (uint64_t i = 0; i < l->symbol_count; ++i) {
        const Elf64_Sym *s = &l->symbols[i];
        uint64_t address = 0;
        if (ELF64_ST_TYPE(s->st_info) != STT_FUNC || s->st_shndx == SHN_UNDEF) {
            continue;
        }
        BT_TRY(address_of(l, s, &address));
        symbol *kept = (symbol *)out->symbols + out->symbol_count;
        BT_TRY(bt_mem_strdup(l->names + s->st_name, &kept->name));
        kept->address = (void *)(uintptr_t)address;
        ++out->symbol_count;
    }
    return BT_OK;
}

static bt_status protect(const loading *l)
{
    const size_t rest = (size_t)(l->all_bytes - l->text_bytes);
    if (mprotect(l->memory, (size_t)l->text_bytes, PROT_READ | PROT_EXEC) != 0 ||
        (rest && mprotect(l->memory + l->text_bytes, rest, PROT_READ) != 0)) {
        return bt_error(BT_STATUS_UNAVAILABLE,
                        "this system does not allow generated code to be executed");
    }
    return BT_OK;
}

bt_status bt_object_load(const void *bytes, size_t size_bytes, bt_object *out)
{
    loading l = {.bytes = bytes, .size = size_bytes};
    memset(out, 0, sizeof *out);
#ifndef __x86_64__
    return bt_error(BT_STATUS_UNSUPPORTED, "generated code for the CPU needs x86-64");
#endif
    bt_status status = read_sections(&l);
    status = status ? status : read_symbols(&l);
    status = status ? status : place_sections(&l);
    status = status ? status : map_sections(&l);
    status = status ? status : relocate_all(&l);
    status = status ? status : keep_functions(&l, out);
    status = status ? status : protect(&l);
    out->memory = l.memory;
    out->size_bytes = (size_t)l.all_bytes;
    bt_mem_free((void *)(uintptr_t)l.sections);
    bt_mem_free((void *)(uintptr_t)l.symbols);
    bt_mem_free(l.place);
    if (status) {
        bt_object_release(out);
    }
    return status;
}

bt_status bt_object_function(const bt_object *object, const char *name, void **address)
{
    const symbol *symbols = object->symbols;
    for (int i = 0; i < object->symbol_count; ++i) {
        if (strcmp(symbols[i].name, name) == 0) {
            *address = symbols[i].address;
            return BT_OK;
        }
    }
    *address = NULL;
    return bt_error(BT_STATUS_INVALID_ARGUMENT, "the generated code has no function %s", name);
}

void bt_object_release(bt_object *object)
{
    symbol *symbols = object->symbols;
    for (int i = 0; i < object->symbol_count; ++i) {
        bt_mem_free(symbols[i].name);
    }
    bt_mem_free(symbols);
    if (object->memory) {
        (void)munmap(object->memory, object->size_bytes);
    }
    memset(object, 0, sizeof *object);
}
