#include "lib/stacks/native/unwinder.h"

#include <fmt/format.h>
#include <libunwind.h>

#include <cstring>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "lib/base/path_name.h"
#include "lib/stacks/native/signed_return.h"

// Exported by libunwind for its own ptrace library, and what perf uses (tools/perf
// util/unwind-libunwind-local.c): finds an address in a PT_GNU_EH_FRAME table through the
// accessors.
extern "C" int UNW_OBJ(dwarf_search_unwind_table)(unw_addr_space_t, unw_word_t, unw_dyn_info_t*,
                                                  unw_proc_info_t*, int, void*);

namespace dlprobe {
namespace {

constexpr size_t kMostFrames = 4096;
// Of memory that one walk reads. A frame takes some hundreds, of a function with a long program
// some ten thousands, but a DWARF expression may jump back (DW_OP_skip), and libunwind follows it
// without end.
constexpr size_t kMostWords = 100'000;
constexpr size_t kWordsOfFrame = 1'000;
constexpr uint8_t kEncodingUdata4 = 0x03;         // DW_EH_PE_udata4
constexpr uint8_t kEncodingDatarelSdata4 = 0x3b;  // DW_EH_PE_datarel | DW_EH_PE_sdata4

/// The head of .eh_frame_hdr (Linux Standard Base, section 10.6.2), as linkers write it.
struct TableHead {
  uint8_t version;
  uint8_t eh_frame_encoding;
  uint8_t count_encoding;
  uint8_t table_encoding;
  int32_t eh_frame;
  uint32_t count;
};
static_assert(sizeof(TableHead) == 12);

/// The first fields of libunwind's struct dwarf_cie_info (include/dwarf.h), to which
/// unw_proc_info_t::unwind_info leads: the addresses of call frame instructions.
struct CallFrameInstructions {
  uint64_t common_begin, common_end;  // of its CIE
  uint64_t begin, end;
};
constexpr uint64_t kMostInstructionBytes = uint64_t{1} << 16U;  // of one function

#ifdef __aarch64__
// UNW_TDEP_IP is the link register there.
constexpr unw_regnum_t kProgramCounter = UNW_AARCH64_PC;

/// unw_step(), and where the caller goes on; `address` is where the frame itself does. Of a caller
/// libunwind's x30 is the address that it is returned to, and pc is still that of the thread; of
/// what a signal interrupted both are as the signal found them. Where unwind information fails,
/// libunwind guesses that x30 leads to the caller. That is so in the innermost frame alone: in any
/// other it leads to where that frame itself goes on.
int step_to_caller(unw_cursor_t& cursor, uint64_t& address) {
  const uint64_t callee = address;
  const bool is_signal_frame = unw_is_signal_frame(&cursor) > 0;
  const int step = unw_step(&cursor);
  if (step <= 0) return step;
  if (!is_signal_frame && unw_get_reg(&cursor, UNW_AARCH64_X30, &address) == 0) return step;
  const int failed = unw_get_reg(&cursor, UNW_AARCH64_PC, &address);
  if (failed != 0) return failed;
  return is_signal_frame || address != callee ? step : -UNW_EBADFRAME;
}
#else
constexpr unw_regnum_t kProgramCounter = UNW_TDEP_IP;

/// unw_step(), and where the caller goes on.
int step_to_caller(unw_cursor_t& cursor, uint64_t& address) {
  const int step = unw_step(&cursor);
  const int failed = step > 0 ? unw_get_reg(&cursor, UNW_REG_IP, &address) : 0;
  return failed != 0 ? failed : step;
}
#endif

}  // namespace

struct Unwinder::State {
  const Memory* memory;
  const AddressSpace* space;
  const Directory* process;
  ModuleCache* modules;
  unw_addr_space_t target = nullptr;
  const Registers* registers = nullptr;
  bool missed_register = false;
  std::optional<uint64_t> unreadable;  ///< the address that could not be read last
  size_t words_left = 0;
  std::map<const Mapping*, Expected<unw_dyn_info_t>> tables;
  std::set<uint64_t> sign_marks;  ///< addresses of call frame instructions; see word_at()

  Expected<unw_dyn_info_t> read_table(const Mapping& mapping) const {
    DLP_TRY(const auto file, modules->file_of(*process, mapping));
    const auto bias = file->bias(mapping);
    if (!bias) return failure(ErrorCode::kMalformed, "the file is not what is mapped");
    const auto range = file->eh_frame_hdr();
    if (!range) return failure(ErrorCode::kNotFound, "it was linked without one");
    const uint64_t address = range->begin + *bias;
    DLP_TRY(const TableHead head, memory->value<TableHead>(address));
    if (head.version != 1 || head.count_encoding != kEncodingUdata4 ||
        head.table_encoding != kEncodingDatarelSdata4) {
      return failure(ErrorCode::kUnsupported, "its encoding is not what linkers write");
    }
    unw_dyn_info_t info{};
    info.start_ip = mapping.begin;
    info.end_ip = mapping.end;
    info.format = UNW_INFO_FORMAT_REMOTE_TABLE;
    info.u.rti.segbase = address;
    info.u.rti.table_data = address + sizeof(TableHead);
    info.u.rti.table_len = head.count;  // entries of two 32-bit numbers: one word each
    return info;
  }

  unw_dyn_info_t* table_of(uint64_t address) {
    const Mapping* mapping = space->find(address);
    if (mapping == nullptr || !mapping->executable) return nullptr;
    auto entry = tables.find(mapping);
    if (entry == tables.end()) entry = tables.emplace(mapping, read_table(*mapping)).first;
    return entry->second ? &*entry->second : nullptr;
  }

  /// Why a walk cannot be known to be over at that address; empty: the unwind information of its
  /// file says so.
  std::string why_not_over(uint64_t address) {
    if (table_of(address) != nullptr) return "";
    const Mapping* mapping = space->find(address);
    if (mapping == nullptr) return "what called it is not known: its code is not mapped";
    if (mapping->path.empty()) return "what called it is not known: its code is in no file";
    const auto table = tables.find(mapping);
    return fmt::format("what called it is not known: no unwind table of {}{}",
                       base_name(mapping->path),
                       table == tables.end() ? "" : " (" + to_string(table->second.error()) + ")");
  }

  std::string why_cut_off(int step, uint64_t address) {
    if (words_left == 0) return "unwind information that does not end";
    if (missed_register) return "a register that only a stopped thread shows";
    if (unreadable) return fmt::format("memory at {:#x} cannot be read", *unreadable);
    const std::string not_over = why_not_over(address);
    return not_over.empty() ? unw_strerror(step) : not_over;
  }

  static State& of(void* argument) { return *static_cast<State*>(argument); }

  static int find_proc_info(unw_addr_space_t target, unw_word_t address, unw_proc_info_t* info,
                            int need_unwind_info, void* argument) {
    unw_dyn_info_t* table = of(argument).table_of(address);
    if (table == nullptr) return -UNW_ENOINFO;
    const int failed = UNW_OBJ(dwarf_search_unwind_table)(target, address, table, info,
                                                          need_unwind_info, argument);
    if (kReturnsMayBeSigned && failed == 0 && info->unwind_info != nullptr) {
      of(argument).note_sign_marks(*info);
    }
    return failed;
  }

  void note_sign_marks(const unw_proc_info_t& info) {
    CallFrameInstructions parts{};
    if (std::cmp_less(info.unwind_info_size, sizeof parts)) return;
    std::memcpy(&parts, info.unwind_info, sizeof parts);
    note_sign_marks(parts.common_begin, parts.common_end);
    note_sign_marks(parts.begin, parts.end);
  }

  void note_sign_marks(uint64_t begin, uint64_t end) {
    if (end <= begin || end - begin > kMostInstructionBytes) return;
    std::vector<std::byte> bytes(end - begin);
    if (!memory->read(begin, bytes)) return;
    for (const size_t mark : find_sign_marks(bytes))
      sign_marks.insert(begin + mark);
  }

  /// A word of memory as libunwind can use it. Before 1.8 it knows no signed return addresses: it
  /// gets them without the signature, and DW_CFA_nop for the instructions that tell of one.
  Expected<uint64_t> word_at(uint64_t address) const {
    DLP_TRY(uint64_t word, memory->value<uint64_t>(address));
    if (!kReturnsMayBeSigned) return word;
    const auto bytes = std::as_writable_bytes(std::span(&word, 1));
    for (auto mark = sign_marks.lower_bound(address);
         mark != sign_marks.end() && *mark - address < bytes.size(); ++mark) {
      bytes[*mark - address] = std::byte{0};
    }
    return without_signature(word, *space);
  }

  static void put_unwind_info(unw_addr_space_t /*target*/, unw_proc_info_t* /*info*/,
                              void* /*argument*/) {}

  static int get_dyn_info_list(unw_addr_space_t /*target*/, unw_word_t* /*list*/,
                               void* /*argument*/) {
    return -UNW_ENOINFO;
  }

  static int access_mem(unw_addr_space_t /*target*/, unw_word_t address, unw_word_t* value,
                        int write, void* argument) {
    State& state = of(argument);
    if (write != 0 || state.words_left == 0) return -UNW_EINVAL;
    --state.words_left;
    const auto word = state.word_at(address);
    if (!word) {
      state.unreadable = address;
      return -UNW_EINVAL;
    }
    *value = *word;
    return 0;
  }

  static int access_reg(unw_addr_space_t /*target*/, unw_regnum_t number, unw_word_t* value,
                        int write, void* argument) {
    if (write != 0) return -UNW_EREADONLYREG;
    State& state = of(argument);
    if (number == kProgramCounter) {
      *value = state.registers->program_counter;
    } else if (number == UNW_TDEP_SP) {
      *value = state.registers->stack_pointer;
    } else {
      const auto& others = state.registers->others;
      const auto index = static_cast<size_t>(number);
      const auto known = number >= 0 && index < others.size() ? others[index] : std::nullopt;
      if (!known) {
        state.missed_register = true;
        return -UNW_EBADREG;
      }
      *value = kReturnsMayBeSigned ? without_signature(*known, *state.space) : *known;
    }
    return 0;
  }

  static int access_fpreg(unw_addr_space_t /*target*/, unw_regnum_t /*number*/,
                          unw_fpreg_t* /*value*/, int /*write*/, void* /*argument*/) {
    return -UNW_EBADREG;
  }

  static int resume(unw_addr_space_t /*target*/, unw_cursor_t* /*cursor*/, void* /*argument*/) {
    return -UNW_EINVAL;
  }

  // libunwind's signature.
  // NOLINTNEXTLINE(readability-function-size)
  static int get_proc_name(unw_addr_space_t /*target*/, unw_word_t /*address*/, char* /*name*/,
                           size_t /*size*/, unw_word_t* /*offset*/, void* /*argument*/) {
    return -UNW_ENOINFO;
  }
};

Unwinder::Unwinder(const Memory& memory, const AddressSpace& space, const Directory& process,
                   ModuleCache& modules)
    : state_(std::make_unique<State>(
          State{.memory = &memory, .space = &space, .process = &process, .modules = &modules})) {
  unw_accessors_t accessors{};
  accessors.find_proc_info = State::find_proc_info;
  accessors.put_unwind_info = State::put_unwind_info;
  accessors.get_dyn_info_list_addr = State::get_dyn_info_list;
  accessors.access_mem = State::access_mem;
  accessors.access_reg = State::access_reg;
  accessors.access_fpreg = State::access_fpreg;
  accessors.resume = State::resume;
  accessors.get_proc_name = State::get_proc_name;
  state_->target = unw_create_addr_space(&accessors, 0);
  if (state_->target != nullptr) unw_set_caching_policy(state_->target, UNW_CACHE_GLOBAL);
}

Unwinder::~Unwinder() {
  if (state_->target != nullptr) unw_destroy_addr_space(state_->target);
}

NativeStack Unwinder::unwind(const Registers& registers) {
  NativeStack stack;
  state_->registers = &registers;
  state_->missed_register = false;
  state_->words_left = kMostWords;
  unw_cursor_t cursor{};
  if (state_->target == nullptr || unw_init_remote(&cursor, state_->target, state_.get()) != 0) {
    stack.cut_off = "libunwind could not begin";
    return stack;
  }
  stack.program_counters.push_back(registers.program_counter);
  while (stack.program_counters.size() < kMostFrames) {
    state_->unreadable.reset();
    state_->words_left += kWordsOfFrame;
    uint64_t address = stack.program_counters.back();
    const int step = step_to_caller(cursor, address);
    if (step < 0) {
      stack.needs_registers = state_->missed_register;
      stack.cut_off = state_->why_cut_off(step, stack.program_counters.back());
      return stack;
    }
    if (step == 0 || address == 0) {
      stack.cut_off = state_->why_not_over(stack.program_counters.back());
      return stack;
    }
    stack.program_counters.push_back(address);
  }
  stack.cut_off = "more frames than a stack has";
  return stack;
}

}  // namespace dlprobe
