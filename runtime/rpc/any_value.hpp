#pragma once

#include <memory>
#include <utility>

#include "runtime/rpc/future.hpp"
#include "runtime/rpc/wire.hpp"

namespace rehearse::rpc {

/// A value of any type that crosses: what a remote reference leads to.
class AnyValue {
 public:
  virtual ~AnyValue() = default;
  /// Packs a copy.
  virtual void put(Packer& to) const = 0;
};
using ValuePtr = std::shared_ptr<AnyValue>;

template <class T>
class ValueOf final : public AnyValue {
 public:
  explicit ValueOf(Stored<T> from) : value(std::move(from)) {}
  void put(Packer& to) const override {
    if constexpr (!std::is_void_v<T>) Wire<T>::put(to, value);
  }
  Stored<T> value;
};

}  // namespace rehearse::rpc
