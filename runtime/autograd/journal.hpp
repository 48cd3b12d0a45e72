#pragma once

#include <vector>

#include "runtime/autograd/gradients.hpp"
#include "runtime/world/world.hpp"

namespace rehearse::autograd {

/// Writes a line of the journal at `line`'s key: the tensor's digest, and its numbers if
/// `Limits::journal_values` asks for them.
void write_journal(World& world, JournalEntry line, const at::Tensor& tensor);

/// The lines for an owner's gradients after a pass, numbered in their order.
void write_journal(World& world, const JournalEntry& key,
                   const std::vector<GradientMap::Entry>& gradients);

/// The numbers of a tensor as `JournalEntry::values` has them. Sparse ones become dense, complex
/// ones pairs, integers float64. An undefined tensor has none.
Bytes journal_values(const at::Tensor& tensor);

}  // namespace rehearse::autograd
