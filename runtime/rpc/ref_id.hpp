#pragma once

#include <compare>
#include <cstdint>
#include <optional>

#include "runtime/base/codec.hpp"

namespace rehearse::rpc {

/// A value behind remote references: who owns it, who asked for it, and the asker's number for it
/// among its values with that owner, from 1.
struct RefId {
  std::uint16_t owner = 0;
  std::uint16_t minter = 0;
  std::uint32_t number = 0;

  auto operator<=>(const RefId&) const = default;
};

/// One reference to a value of `owner`. Each one that is made or passed on has a number of its own,
/// given by the worker that makes it or passes it on.
struct ForkId {
  std::uint16_t owner = 0;
  std::uint16_t minter = 0;
  std::uint32_t number = 0;

  auto operator<=>(const ForkId&) const = default;
};

/// A reference as messages name it.
struct Reference {
  RefId ref;
  ForkId fork;

  auto operator<=>(const Reference&) const = default;
};

inline void put(const Reference& what, Writer& to) {
  to.put_varint(what.ref.owner);
  to.put_varint(what.ref.minter);
  to.put_varint(what.ref.number);
  to.put_varint(what.fork.minter);
  to.put_varint(what.fork.number);
}

/// Empty for what `put` does not write.
inline std::optional<Reference> get_reference(Reader& from) {
  const std::uint64_t owner = from.get_varint(), minter = from.get_varint();
  const std::uint64_t number = from.get_varint(), by = from.get_varint();
  const std::uint64_t fork = from.get_varint();
  constexpr std::uint64_t kWorkerMax = UINT16_MAX, kNumberMax = UINT32_MAX;
  if (from.failed() || owner > kWorkerMax || minter > kWorkerMax || by > kWorkerMax ||
      number - 1 >= kNumberMax || fork - 1 >= kNumberMax) {
    return std::nullopt;
  }
  const auto worker = [](std::uint64_t value) { return static_cast<std::uint16_t>(value); };
  const auto count = [](std::uint64_t value) { return static_cast<std::uint32_t>(value); };
  return Reference{{worker(owner), worker(minter), count(number)},
                   {worker(owner), worker(by), count(fork)}};
}

}  // namespace rehearse::rpc
