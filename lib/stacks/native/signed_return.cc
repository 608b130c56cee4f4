#include "lib/stacks/native/signed_return.h"

#include <algorithm>
#include <array>
#include <optional>

namespace dlprobe {
namespace {

/// What follows the opcode of an instruction.
enum class Operand : uint8_t { kNone, kByte, kHalf, kWord, kNumber, kBlock };

struct Instruction {
  uint8_t opcode;
  std::array<Operand, 2> operands;
};

constexpr uint8_t kNegateSigned = 0x2d;  // DW_CFA_AARCH64_negate_ra_state

constexpr auto kInstructions = [] {
  using enum Operand;
  return std::to_array<Instruction>({
      {0x00, {kNone, kNone}},                                     // DW_CFA_nop
      {0x02, {kByte, kNone}},                                     // DW_CFA_advance_loc1
      {0x03, {kHalf, kNone}},                                     // DW_CFA_advance_loc2
      {0x04, {kWord, kNone}},                                     // DW_CFA_advance_loc4
      {0x05, {kNumber, kNumber}},                                 // DW_CFA_offset_extended
      {0x06, {kNumber, kNone}},                                   // DW_CFA_restore_extended
      {0x07, {kNumber, kNone}},                                   // DW_CFA_undefined
      {0x08, {kNumber, kNone}},                                   // DW_CFA_same_value
      {0x09, {kNumber, kNumber}},                                 // DW_CFA_register
      {0x0a, {kNone, kNone}},                                     // DW_CFA_remember_state
      {0x0b, {kNone, kNone}},                                     // DW_CFA_restore_state
      {0x0c, {kNumber, kNumber}},                                 // DW_CFA_def_cfa
      {0x0d, {kNumber, kNone}},                                   // DW_CFA_def_cfa_register
      {0x0e, {kNumber, kNone}},                                   // DW_CFA_def_cfa_offset
      {0x0f, {kBlock, kNone}},                                    // DW_CFA_def_cfa_expression
      {0x10, {kNumber, kBlock}},                                  // DW_CFA_expression
      {0x11, {kNumber, kNumber}},                                 // DW_CFA_offset_extended_sf
      {0x12, {kNumber, kNumber}},                                 // DW_CFA_def_cfa_sf
      {0x13, {kNumber, kNone}},                                   // DW_CFA_def_cfa_offset_sf
      {0x14, {kNumber, kNumber}},                                 // DW_CFA_val_offset
      {0x15, {kNumber, kNumber}},                                 // DW_CFA_val_offset_sf
      {0x16, {kNumber, kBlock}},                                  // DW_CFA_val_expression
      {kNegateSigned, {kNone, kNone}}, {0x2e, {kNumber, kNone}},  // DW_CFA_GNU_args_size
  });
}();

/// DW_CFA_advance_loc, DW_CFA_offset and DW_CFA_restore have their first operand in the opcode.
std::optional<std::array<Operand, 2>> operands_of(uint8_t opcode) {
  constexpr unsigned kOffset = 2;
  const unsigned primary = opcode >> 6U;
  if (primary == kOffset) return std::array{Operand::kNumber, Operand::kNone};
  if (primary != 0) return std::array{Operand::kNone, Operand::kNone};
  const auto* const found = std::ranges::find(kInstructions, opcode, &Instruction::opcode);
  if (found == kInstructions.end()) return std::nullopt;
  return found->operands;
}

/// Reads along call frame instructions; at their end it stays there.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  bool at_end() const { return at_ >= bytes_.size(); }
  size_t position() const { return at_; }
  uint8_t take() { return at_end() ? uint8_t{0} : std::to_integer<uint8_t>(bytes_[at_++]); }

  void pass(Operand operand) {
    switch (operand) {
      case Operand::kNone:
        break;
      case Operand::kByte:
        pass(1);
        break;
      case Operand::kHalf:
        pass(2);
        break;
      case Operand::kWord:
        pass(4);
        break;
      case Operand::kNumber:
        number();
        break;
      case Operand::kBlock:
        pass(number());
        break;
    }
  }

 private:
  void pass(uint64_t count) { at_ += std::min<uint64_t>(count, bytes_.size() - at_); }

  /// An unsigned LEB128; the length of a signed one is the same.
  uint64_t number() {
    constexpr unsigned kMore = 0x80;
    constexpr unsigned kBits = 7;
    uint64_t value = 0;
    for (unsigned shift = 0; !at_end(); shift += kBits) {
      const unsigned byte = take();
      if (shift < 64) value |= uint64_t{byte & ~kMore} << shift;
      if ((byte & kMore) == 0) break;
    }
    return value;
  }

  std::span<const std::byte> bytes_;
  size_t at_ = 0;
};

}  // namespace

std::vector<size_t> find_sign_marks(std::span<const std::byte> instructions) {
  std::vector<size_t> marks;
  Reader reader(instructions);
  while (!reader.at_end()) {
    const size_t position = reader.position();
    const uint8_t opcode = reader.take();
    const auto operands = operands_of(opcode);
    if (!operands) break;
    if (opcode == kNegateSigned) marks.push_back(position);
    for (const Operand operand : *operands)
      reader.pass(operand);
  }
  return marks;
}

uint64_t without_signature(uint64_t word, const AddressSpace& space) {
  // The kernel gives no address above these bits to a process that does not ask for one
  // (Documentation/arm64/memory.rst), and signs in the bits between them and bit 55.
  constexpr uint64_t kAddressBits = (uint64_t{1} << 48U) - 1;
  const uint64_t address = word & kAddressBits;
  if (address == word) return word;
  const Mapping* mapping = space.find(address);
  return mapping != nullptr && mapping->executable ? address : word;
}

}  // namespace dlprobe
