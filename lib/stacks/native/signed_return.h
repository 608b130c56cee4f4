#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/stacks/native/address_space.h"

namespace dlprobe {

/// Whether code of this machine may sign its return addresses (aarch64, pointer authentication).
#ifdef __aarch64__
inline constexpr bool kReturnsMayBeSigned = true;
#else
inline constexpr bool kReturnsMayBeSigned = false;
#endif

/// The places in call frame instructions (DWARF 5, section 6.4.2) where the state "the return
/// address is signed" changes: DW_CFA_AARCH64_negate_ra_state, one byte each. Ends at an
/// instruction that is not known.
std::vector<size_t> find_sign_marks(std::span<const std::byte> instructions);

/// `word` without its signature, if it is a signed address of code; any other word as it is. A
/// signature is in the bits above the address; without it, almost no such word leads to code.
uint64_t without_signature(uint64_t word, const AddressSpace& space);

}  // namespace dlprobe
