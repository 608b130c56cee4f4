// On aarch64 with signed return addresses, whose functions tell so in their unwind information
// (CMakeLists.txt).
#include "lib/stacks/native/unwinder.h"

#include <gmock/gmock.h>
#include <ucontext.h>

#include <array>
#include <bit>
#include <csignal>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/os/file_system.h"
#include "lib/proc/maps.h"
#include "lib/stacks/native/address_space.h"
#include "lib/stacks/native/module_cache.h"
#include "lib/stacks/native/signed_return.h"
#include "tests/support/read_text.h"

namespace dlprobe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;

/// The memory of this process; where `space` has none nothing is read.
class OwnMemory final : public Memory {
 public:
  explicit OwnMemory(const AddressSpace& space) : space_(space) {}

  Status read(uint64_t address, std::span<std::byte> bytes) const override {
    const Mapping* mapping = space_.find(address);
    if (mapping == nullptr || !mapping->readable || mapping->end - address < bytes.size()) {
      return failure(ErrorCode::kNotFound, "no such address");
    }
    // NOLINTNEXTLINE(performance-no-int-to-ptr): an address of this process
    std::memcpy(bytes.data(), std::bit_cast<const void*>(address), bytes.size());
    return {};
  }

 private:
  const AddressSpace& space_;
};

Registers registers_of(const ucontext_t& context) {
#ifdef __aarch64__
  const auto& from = context.uc_mcontext;
  Registers registers{.program_counter = from.pc,
                      .stack_pointer = from.sp,
                      .others = {std::begin(from.regs), std::end(from.regs)}};
  registers.others.emplace_back(from.sp);
#else
  const auto& from = context.uc_mcontext.gregs;
  Registers registers{.program_counter = static_cast<uint64_t>(from[REG_RIP]),
                      .stack_pointer = static_cast<uint64_t>(from[REG_RSP])};
  for (const int number : {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP,
                           REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15}) {
    registers.others.emplace_back(static_cast<uint64_t>(from[number]));
  }
#endif
  return registers;
}

enum class Known { kAll, kAsOfABlockedThread };

NativeStack unwind_from(const ucontext_t& context, Known known) {
  const auto root = open_root("/").value();
  const auto process = root->open_directory("proc/self").value();
  // By its whole path: so qemu shows the mappings of the program that it runs, not its own.
  const AddressSpace space(parse_maps(read_text("/proc/self/maps")).value());
  const OwnMemory memory(space);
  ModuleCache modules;
  Unwinder unwinder(memory, space, *process, modules);
  Registers registers = registers_of(context);
  if (known == Known::kAsOfABlockedThread) registers.others.clear();
  return unwinder.unwind(registers);
}

uint64_t address_of(const void* pointer) {
  return std::bit_cast<uint64_t>(pointer);
}

/// A stack, and the addresses that must be in it, as the compiler gives them.
struct Walk {
  std::vector<uint64_t> returns;
  NativeStack stack;
};

[[gnu::noinline]] void inner(Walk& walk, Known known) {
  walk.returns.push_back(address_of(__builtin_return_address(0)));
  ucontext_t context{};
  ::getcontext(&context);
  walk.stack = unwind_from(context, known);
}

[[gnu::noinline]] void middle(Walk& walk, Known known) {
  walk.returns.push_back(address_of(__builtin_return_address(0)));
  // Space that depends on the moment: this frame is found by a register, not by the stack pointer.
  volatile size_t size = 64 + walk.returns.size();
  auto* space = static_cast<volatile char*>(__builtin_alloca(size));
  space[0] = 0;
  inner(walk, known);
  space[1] = space[0];
}

[[gnu::noinline]] Walk outer(Known known) {
  Walk walk;
  walk.returns.push_back(address_of(__builtin_return_address(0)));
  middle(walk, known);
  return walk;
}

Walk* walk_of_handler = nullptr;

void on_signal(int /*signal*/) {
  middle(*walk_of_handler, Known::kAll);
}

[[gnu::noinline]] Walk raiser() {
  Walk walk;
  walk.returns.push_back(address_of(__builtin_return_address(0)));
  walk_of_handler = &walk;
  struct sigaction handler{};
  struct sigaction before{};
  handler.sa_handler = on_signal;
  ::sigaction(SIGUSR1, &handler, &before);
  ::raise(SIGUSR1);
  ::sigaction(SIGUSR1, &before, nullptr);
  return walk;
}

TEST(Unwinder, FindsEveryCallerByTheRegistersOfAThread) {
  const Walk walk = outer(Known::kAll);
  EXPECT_THAT(walk.stack.program_counters, IsSupersetOf(walk.returns)) << walk.stack.cut_off;
  EXPECT_FALSE(walk.stack.needs_registers);
}

TEST(Unwinder, GoesOnBehindTheFrameOfASignal) {
  const Walk walk = raiser();
  EXPECT_THAT(walk.stack.program_counters, IsSupersetOf({walk.returns[0], walk.returns[2]}))
      << walk.stack.cut_off;
}

TEST(Unwinder, OfABlockedThreadItWalksOrAsksForRegisters) {
  const Walk walk = outer(Known::kAsOfABlockedThread);
  ASSERT_THAT(walk.stack.program_counters, Not(IsEmpty()));
  if (!walk.stack.needs_registers) {
    EXPECT_THAT(walk.stack.program_counters, IsSupersetOf(walk.returns)) << walk.stack.cut_off;
  }
}

TEST(SignedReturn, MarksAreFoundBetweenOperandsThatLookLikeThem) {
  constexpr std::array<unsigned char, 22> kBytes = {
      0x41,                                // advance_loc
      0x2d,                                // negate_ra_state: a mark
      0x0e, 0x2d,                          // def_cfa_offset 45
      0x9e, 0x2d,                          // offset of x30
      0x02, 0x2d,                          // advance_loc1 45
      0x10, 0x1d, 0x03, 0x2d, 0x2d, 0x2d,  // expression of three bytes
      0x05, 0xad, 0x2d, 0x01,              // offset_extended of a register with two bytes
      0x0a,                                // remember_state
      0x2d,                                // a mark
      0x3f, 0x2d};                         // an instruction that is not known
  EXPECT_THAT(find_sign_marks(std::as_bytes(std::span(kBytes))), ElementsAre(1, 19));
}

TEST(SignedReturn, EveryPrefixOfInstructionsIsRead) {
  constexpr std::array<unsigned char, 7> kBytes = {0x2d, 0x0f, 0xff, 0xff, 0xff, 0xff, 0x7f};
  for (size_t size = 1; size <= kBytes.size(); ++size) {
    EXPECT_THAT(find_sign_marks(std::as_bytes(std::span(kBytes).first(size))), ElementsAre(0));
  }
}

TEST(SignedReturn, OnlyAddressesOfCodeLoseTheirSignature) {
  constexpr uint64_t kCode = 0xAAAA'0000'1000;
  constexpr uint64_t kData = 0xAAAA'0001'0000;
  const AddressSpace space({{.begin = kCode, .end = kCode + 0x1000, .executable = true},
                            {.begin = kData, .end = kData + 0x1000, .readable = true}});
  constexpr uint64_t kSignature = 0x0035'0000'0000'0000;
  EXPECT_EQ(without_signature(kCode + 8, space), kCode + 8);
  EXPECT_EQ(without_signature(kSignature + kCode + 8, space), kCode + 8);
  EXPECT_EQ(without_signature(kSignature + kData, space), kSignature + kData);
  EXPECT_EQ(without_signature(kSignature, space), kSignature);
}

}  // namespace
}  // namespace dlprobe
