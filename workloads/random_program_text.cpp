#include <fmt/format.h>

#include <array>

#include "runtime/base/codec.hpp"
#include "runtime/base/error.hpp"
#include "workloads/random_program.hpp"

namespace rehearse::workloads {
namespace {

constexpr std::array<const char*, kOps> kNames = {"matmul", "mix",  "in_place", "split",
                                                  "detach", "call", "wait"};
constexpr int kDepthMax = 64;

void put(Writer& to, const Routine& routine) {
  to.put_varint(routine.results);
  to.put_varint(routine.instructions.size());
  for (const auto& one : routine.instructions) {
    to.put(one.op);
    for (const std::uint32_t field : {one.a, one.b, one.leaf}) to.put_varint(field);
    if (one.op != Op::call) continue;
    to.put_varint(one.worker);
    to.put_varint(one.arguments);
    to.put(static_cast<std::uint8_t>(one.wait_at_once | one.unused << 1 | one.no_grad << 2));
    put(to, *one.body);
  }
}

Routine get(Reader& from, int depth) {
  Routine routine;
  routine.results = static_cast<std::uint32_t>(from.get_varint());
  const std::size_t count = from.get_count(4);
  for (std::size_t i = 0; i < count && !from.failed(); ++i) {
    Instruction one;
    one.op = from.get<Op>();
    for (std::uint32_t* field : {&one.a, &one.b, &one.leaf})
      *field = static_cast<std::uint32_t>(from.get_varint());
    if (static_cast<int>(one.op) >= kOps || depth > kDepthMax)
      throw Error(Code::corrupt, "no such instruction");
    if (one.op == Op::call) {
      one.worker = static_cast<std::uint32_t>(from.get_varint());
      one.arguments = static_cast<std::uint32_t>(from.get_varint());
      const auto flags = from.get<std::uint8_t>();
      one.wait_at_once = flags & 1;
      one.unused = flags & 2;
      one.no_grad = flags & 4;
      one.body = std::make_shared<const Routine>(get(from, depth + 1));
    }
    routine.instructions.push_back(std::move(one));
  }
  return routine;
}

}  // namespace

std::string encode(const Routine& routine) {
  Bytes bytes;
  Writer to(bytes);
  put(to, routine);
  return std::string(text_of(bytes));
}

Routine decode_routine(std::string_view text) {
  const Bytes bytes = bytes_of(text);
  Reader from(bytes);
  Routine routine = get(from, 0);
  if (from.failed() || from.left() != 0)
    throw Error(Code::corrupt, "a random program is cut short");
  return routine;
}

std::string to_text(const Routine& routine, int indent) {
  std::string text;
  for (const auto& one : routine.instructions) {
    text += fmt::format("{:{}}{} x={} y={} leaf={}", "", 2 * indent,
                        kNames[static_cast<std::size_t>(one.op)], one.a, one.b, one.leaf);
    if (one.op == Op::call) {
      text += fmt::format(" worker={} arguments={}{}{}{}", one.worker, one.arguments,
                          one.wait_at_once ? " wait" : "", one.unused ? " unused" : "",
                          one.no_grad ? " no_grad" : "");
    }
    text += "\n";
    if (one.body) text += to_text(*one.body, indent + 1);
  }
  return text + fmt::format("{:{}}return {} tensors\n", "", 2 * indent, routine.results);
}

}  // namespace rehearse::workloads
