#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/base/codec.hpp"
#include "runtime/base/error.hpp"

namespace rehearse {

/// Makes a struct an argument or a result. Specialise with
/// `static constexpr std::string_view name` and
/// `template <class Visitor> static void visit(Visitor&& visitor, T& value)` that calls
/// `visitor(field)` for each field, in a fixed order.
template <class T>
struct Fields;

}  // namespace rehearse

namespace rehearse::rpc {

class RefHandle;
using RefPtr = std::shared_ptr<const RefHandle>;

/// Arguments or a result, taken apart: plain bytes, tensors that cross as tensors, and remote
/// references.
struct Packed {
  Bytes bytes;
  std::vector<at::Tensor> tensors;
  std::vector<RefPtr> refs;
};

class Packer {
 public:
  explicit Packer(Packed& to) : writer(to.bytes), tensors(to.tensors), refs(to.refs) {}
  Writer writer;
  std::vector<at::Tensor>& tensors;
  std::vector<RefPtr>& refs;
};

class Unpacker {
 public:
  explicit Unpacker(Packed& from) : reader(from.bytes), tensors_(from.tensors), refs_(from.refs) {}
  at::Tensor next_tensor() {
    if (next_ == tensors_.size()) throw Error(Code::corrupt, "a message holds too few tensors");
    return std::move(tensors_[next_++]);
  }
  RefPtr next_ref() {
    if (next_ref_ == refs_.size()) throw Error(Code::corrupt, "a message holds too few references");
    return std::move(refs_[next_ref_++]);
  }
  /// After the last value: nothing may be left.
  void finish() const {
    if (reader.failed() || reader.left() != 0 || next_ != tensors_.size() ||
        next_ref_ != refs_.size()) {
      throw Error(Code::corrupt, "arguments do not have the length that their types ask for");
    }
  }
  Reader reader;

 private:
  std::vector<at::Tensor>& tensors_;
  std::vector<RefPtr>& refs_;
  std::size_t next_ = 0, next_ref_ = 0;
};

/// How a type crosses: `name()` for signatures, `put`, `get`. What is given as an rvalue is given
/// away: a tensor that nobody else holds is then sent without a copy.
template <class T>
struct Wire;

/// A part of a `Whole` that is given away with it, or only read like it.
template <class Whole, class Part>
decltype(auto) as_given(Part& part) {
  if constexpr (std::is_lvalue_reference_v<Whole>) {
    return std::as_const(part);
  } else {
    return std::move(part);
  }
}

template <class T>
concept Crossable = requires(Packer& packer, Unpacker& unpacker, const T& value) {
  { Wire<T>::name() } -> std::convertible_to<std::string>;
  Wire<T>::put(packer, value);
  { Wire<T>::get(unpacker) } -> std::same_as<T>;
};

template <>
struct Wire<at::Tensor> {
  static std::string name() { return "Tensor"; }
  static void put(Packer& to, at::Tensor value) { to.tensors.push_back(std::move(value)); }
  static at::Tensor get(Unpacker& from) { return from.next_tensor(); }
};

template <class T>
requires(std::is_arithmetic_v<T> || std::is_enum_v<T>) struct Wire<T> {
  static std::string name() {
    if constexpr (std::is_same_v<T, bool>) return "bool";
    const char kind = std::is_floating_point_v<T> ? 'f' : std::is_signed_v<T> ? 'i' : 'u';
    return kind + std::to_string(8 * sizeof(T));
  }
  static void put(Packer& to, T value) { to.writer.put(value); }
  static T get(Unpacker& from) { return from.reader.template get<T>(); }
};

template <>
struct Wire<std::string> {
  static std::string name() { return "string"; }
  static void put(Packer& to, const std::string& value) { to.writer.put_text(value); }
  static std::string get(Unpacker& from) { return std::string(from.reader.get_text()); }
};

template <class T>
struct Wire<std::vector<T>> {
  static std::string name() { return "[" + Wire<T>::name() + "]"; }
  template <class Values>
  static void put(Packer& to, Values&& values) {
    to.writer.put_varint(values.size());
    for (auto&& value : values) Wire<T>::put(to, as_given<Values>(value));
  }
  static std::vector<T> get(Unpacker& from) {
    // Elements may take no byte (a tensor), so the count alone is not trusted with memory.
    const std::uint64_t count = from.reader.get_varint();
    std::vector<T> values;
    for (std::uint64_t i = 0; i < count && !from.reader.failed(); ++i) {
      values.push_back(Wire<T>::get(from));
    }
    return values;
  }
};

template <class K, class V>
struct Wire<std::map<K, V>> {
  static std::string name() { return "{" + Wire<K>::name() + ":" + Wire<V>::name() + "}"; }
  template <class Values>
  static void put(Packer& to, Values&& values) {
    to.writer.put_varint(values.size());
    for (auto& [key, value] : values) {
      Wire<K>::put(to, key);
      Wire<V>::put(to, as_given<Values>(value));
    }
  }
  static std::map<K, V> get(Unpacker& from) {
    const std::uint64_t count = from.reader.get_varint();
    std::map<K, V> values;
    for (std::uint64_t i = 0; i < count && !from.reader.failed(); ++i) {
      K key = Wire<K>::get(from);
      values.emplace(std::move(key), Wire<V>::get(from));
    }
    return values;
  }
};

template <class T>
struct Wire<std::optional<T>> {
  static std::string name() { return Wire<T>::name() + "?"; }
  template <class Value>
  static void put(Packer& to, Value&& value) {
    to.writer.put(value.has_value());
    if (value) Wire<T>::put(to, as_given<Value>(*value));
  }
  static std::optional<T> get(Unpacker& from) {
    if (!from.reader.template get<bool>()) return std::nullopt;
    return Wire<T>::get(from);
  }
};

template <class... T>
struct Wire<std::tuple<T...>> {
  static std::string name() {
    std::string names;
    ((names += (names.empty() ? "" : ",") + Wire<T>::name()), ...);
    return "(" + names + ")";
  }
  template <class Values>
  static void put(Packer& to, Values&& values) {
    std::apply([&to](auto&&... value) { (Wire<T>::put(to, as_given<Values>(value)), ...); },
               values);
  }
  static std::tuple<T...> get(Unpacker& from) {
    return std::tuple<T...>{Wire<T>::get(from)...};  // braces: left to right
  }
};

template <class A, class B>
struct Wire<std::pair<A, B>> {
  static std::string name() { return Wire<std::tuple<A, B>>::name(); }
  template <class Value>
  static void put(Packer& to, Value&& value) {
    Wire<A>::put(to, as_given<Value>(value.first));
    Wire<B>::put(to, as_given<Value>(value.second));
  }
  static std::pair<A, B> get(Unpacker& from) {
    A first = Wire<A>::get(from);
    return {std::move(first), Wire<B>::get(from)};
  }
};

/// A user's struct, through `Fields`.
template <class T>
requires requires { Fields<T>::name; }
struct Wire<T> {
  static std::string name() { return std::string(Fields<T>::name); }
  template <class Value>
  static void put(Packer& to, Value&& value) {
    // The visitor only reads a value that is not given away; one `visit` serves all directions.
    Fields<T>::visit([&to]<class F>(F& field) { Wire<F>::put(to, as_given<Value>(field)); },
                     const_cast<T&>(value));
  }
  static T get(Unpacker& from) {
    T value{};
    Fields<T>::visit([&from]<class F>(F& field) { field = Wire<F>::get(from); }, value);
    return value;
  }
};

}  // namespace rehearse::rpc
