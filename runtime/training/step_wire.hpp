#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/rpc/remote_ref.hpp"
#include "runtime/training/local_optimizer.hpp"
#include "runtime/training/optimizer_options.hpp"
#include "runtime/training/step.hpp"

/// What the calls of a step carry.
namespace rehearse::training {

/// An optimizer as its trainer refers to it: alive while the trainer holds the reference.
struct OwnedOptimizer {
  std::shared_ptr<LocalOptimizer> optimizer;
};
struct Created {
  RemoteRef<OwnedOptimizer> keep;
  std::uint64_t number = 0;  ///< by which its owner knows it
};

/// What an owner shall prepare.
struct StepOrder {
  Ticket ticket;
  std::uint64_t optimizer = 0;
  ContextId context = 0;
  double learning_rate = 0;
  double scale = 1;  ///< of the gradients
};
struct PrepareReply {
  bool prepared = false;  ///< else given up, for an older step
  std::uint64_t newest_turn = 0;
};

}  // namespace rehearse::training

namespace rehearse {

template <>
struct Fields<Sgd> {
  static constexpr std::string_view name = "Sgd";
  template <class Visitor>
  static void visit(Visitor&& visitor, Sgd& value) {
    visitor(value.learning_rate);
    visitor(value.momentum);
    visitor(value.dampening);
    visitor(value.weight_decay);
    visitor(value.nesterov);
  }
};
template <class A>
requires(std::is_same_v<A, Adam> || std::is_same_v<A, AdamW>) struct Fields<A> {
  static constexpr std::string_view name = std::is_same_v<A, Adam> ? "Adam" : "AdamW";
  template <class Visitor>
  static void visit(Visitor&& visitor, A& value) {
    visitor(value.learning_rate);
    visitor(value.beta1);
    visitor(value.beta2);
    visitor(value.epsilon);
    visitor(value.weight_decay);
    visitor(value.amsgrad);
  }
};
template <>
struct Fields<Adagrad> {
  static constexpr std::string_view name = "Adagrad";
  template <class Visitor>
  static void visit(Visitor&& visitor, Adagrad& value) {
    visitor(value.learning_rate);
    visitor(value.learning_rate_decay);
    visitor(value.weight_decay);
    visitor(value.initial_accumulator);
    visitor(value.epsilon);
  }
};
template <>
struct Fields<RmsProp> {
  static constexpr std::string_view name = "RmsProp";
  template <class Visitor>
  static void visit(Visitor&& visitor, RmsProp& value) {
    visitor(value.learning_rate);
    visitor(value.smoothing);
    visitor(value.epsilon);
    visitor(value.weight_decay);
    visitor(value.momentum);
    visitor(value.centered);
  }
};

template <>
struct Fields<training::Created> {
  static constexpr std::string_view name = "optimizer.Created";
  template <class Visitor>
  static void visit(Visitor&& visitor, training::Created& value) {
    visitor(value.keep);
    visitor(value.number);
  }
};
template <>
struct Fields<training::StepId> {
  static constexpr std::string_view name = "optimizer.StepId";
  template <class Visitor>
  static void visit(Visitor&& visitor, training::StepId& value) {
    visitor(value.trainer);
    visitor(value.attempt);
  }
};
template <>
struct Fields<training::StepOrder> {
  static constexpr std::string_view name = "optimizer.StepOrder";
  template <class Visitor>
  static void visit(Visitor&& visitor, training::StepOrder& value) {
    visitor(value.ticket.id);
    visitor(value.ticket.age.turn);
    visitor(value.ticket.age.context);
    visitor(value.ticket.age.trainer);
    visitor(value.ticket.age.first_attempt);
    visitor(value.ticket.owners);
    visitor(value.ticket.settled_below);
    visitor(value.optimizer);
    visitor(value.context);
    visitor(value.learning_rate);
    visitor(value.scale);
  }
};
template <>
struct Fields<training::PrepareReply> {
  static constexpr std::string_view name = "optimizer.PrepareReply";
  template <class Visitor>
  static void visit(Visitor&& visitor, training::PrepareReply& value) {
    visitor(value.prepared);
    visitor(value.newest_turn);
  }
};

}  // namespace rehearse

namespace rehearse::rpc {

template <>
struct Wire<Algorithm> {
  static std::string name() { return "Algorithm"; }
  static void put(Packer& to, const Algorithm& value) {
    to.writer.put_varint(value.index());
    std::visit([&to]<class A>(const A& of) { Wire<A>::put(to, of); }, value);
  }
  static Algorithm get(Unpacker& from) {
    return get_one(from, from.reader.get_varint(),
                   std::make_index_sequence<std::variant_size_v<Algorithm>>());
  }

 private:
  template <std::size_t... I>
  static Algorithm get_one(Unpacker& from, std::uint64_t index, std::index_sequence<I...>) {
    std::optional<Algorithm> value;
    ((index == I ? (void)(value = Wire<std::variant_alternative_t<I, Algorithm>>::get(from))
                 : void()),
     ...);
    if (!value) throw Error(Code::corrupt, "an optimizer of no known kind");
    return *value;
  }
};

/// It stays where it is: only references to it cross.
template <>
struct Wire<training::OwnedOptimizer> {
  static std::string name() { return "optimizer.Owned"; }
  static void put(Packer&, const training::OwnedOptimizer&) {
    throw Error(Code::bad_argument, "an optimizer stays with its parameters");
  }
  static training::OwnedOptimizer get(Unpacker&) {
    throw Error(Code::corrupt, "an optimizer does not cross");
  }
};

}  // namespace rehearse::rpc
