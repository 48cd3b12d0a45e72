#include "runtime/rpc/tensors.hpp"

#include <ATen/ops/_efficientzerotensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/imag.h>
#include <ATen/ops/quantize_per_tensor.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/zeros.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>

#include "runtime/base/random.hpp"
#include "runtime/rpc/tensor_kinds.hpp"

namespace rehearse::rpc {
namespace {

using Tensors = std::vector<at::Tensor>;

struct Packed {
  Bytes header;
  std::vector<Payload> payloads;
};

Packed packed(const Tensors& tensors) {
  Packed result;
  Writer writer(result.header);
  pack_tensors(tensors, writer, result.payloads).or_throw();
  return result;
}

Packed packed_away(Tensors&& tensors) {
  Packed result;
  Writer writer(result.header);
  Buffers heap;
  pack_tensors(std::move(tensors), writer, result.payloads, heap).or_throw();
  return result;
}

Result<Tensors> unpacked(const Packed& from) {
  Reader reader(from.header);
  std::size_t next_payload = 0;
  Result<Tensors> tensors = unpack_tensors(reader, from.payloads, next_payload);
  if (tensors.ok()) {
    EXPECT_EQ(reader.left(), 0u);
    EXPECT_EQ(next_payload, from.payloads.size());
  }
  return tensors;
}

/// Sent and received, the message dropped: as a handler has its arguments.
Tensors crossed_away(Tensors&& tensors) {
  return unpacked(packed_away(std::move(tensors))).or_throw();
}

at::Tensor crossed(const at::Tensor& tensor) { return unpacked(packed({tensor})).or_throw().at(0); }

/// The payloads as a wire would bring them: in memory of their own.
Packed over_a_wire(const Packed& sent) {
  Packed received{sent.header, {}};
  for (const Payload& payload : sent.payloads) {
    auto copy = std::make_shared<Bytes>(payload.bytes().begin(), payload.bytes().end());
    received.payloads.emplace_back(copy, std::span<const std::byte>(*copy));
  }
  return received;
}

bool same_bits(const at::Tensor& left, const at::Tensor& right) {
  const at::Tensor a = left.contiguous(), b = right.contiguous();
  return a.nbytes() == b.nbytes() &&
         (a.nbytes() == 0 || std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0);
}

void expect_same(const at::Tensor& sent, const at::Tensor& received) {
  EXPECT_EQ(received.scalar_type(), sent.scalar_type());
  EXPECT_EQ(received.sizes(), sent.sizes());
  EXPECT_EQ(received.strides(), sent.strides());
  EXPECT_TRUE(same_bits(sent, received));
}

at::Tensor random_bits(at::IntArrayRef sizes, at::ScalarType dtype, std::uint64_t seed = 1) {
  at::Tensor tensor = at::empty(sizes, at::TensorOptions(dtype));
  Random random(seed);
  auto* bytes = static_cast<std::uint8_t*>(tensor.mutable_data_ptr());
  const std::uint64_t bound = dtype == at::kBool ? 2 : 256;
  std::generate_n(bytes, tensor.nbytes(),
                  [&] { return static_cast<std::uint8_t>(random.below(bound)); });
  return tensor;
}

// Every element type with plain storage keeps type, shape and bits (NaN payloads included), dense,
// through a view with gaps, transposed, and from a wire's memory.
TEST(Tensors, KeepTheBitsOfEveryElementType) {
  int types = 0;
  for (std::size_t number = 0; number < kElementSizesBytes.size(); ++number) {
    const auto dtype = static_cast<at::ScalarType>(number);
    if (plain_size_bytes(dtype) == 0) continue;
    ++types;
    SCOPED_TRACE(c10::toString(dtype));
    const at::Tensor dense = random_bits({3, 4}, dtype);
    expect_same(dense, crossed(dense));
    expect_same(dense, crossed(dense.t()).t());
    expect_same(dense, unpacked(over_a_wire(packed({dense}))).or_throw().at(0));
    const at::Tensor gaps = dense.slice(1, 0, 4, 2);
    const at::Tensor received = crossed(gaps);
    EXPECT_EQ(received.scalar_type(), dtype);
    EXPECT_TRUE(received.is_contiguous());
    const std::size_t element_bytes = plain_size_bytes(dtype);
    const auto* from = static_cast<const std::byte*>(dense.const_data_ptr());
    const auto* to = static_cast<const std::byte*>(received.const_data_ptr());
    for (std::size_t index = 0; index < 6; ++index) {
      EXPECT_EQ(
          std::memcmp(to + index * element_bytes, from + 2 * index * element_bytes, element_bytes),
          0);
    }
  }
  EXPECT_EQ(types, 41);
}

// A list keeps its order and its undefined members; scalars, empty tensors and many dimensions.
TEST(Tensors, KeepUndefinedEmptyAndZeroDimensionalOnes) {
  const at::Tensor scalar = at::tensor(2.5);
  const at::Tensor empty = at::empty({3, 0, 5});
  const at::Tensor many = at::arange(8).view({2, 1, 1, 2, 1, 1, 1, 2, 1, 1});
  const Tensors received =
      unpacked(packed({at::Tensor(), scalar, empty, many, at::Tensor()})).or_throw();
  ASSERT_EQ(received.size(), 5u);
  EXPECT_FALSE(received[0].defined());
  EXPECT_FALSE(received[4].defined());
  expect_same(scalar, received[1]);
  expect_same(empty, received[2]);
  expect_same(many, received[3]);
  EXPECT_EQ(unpacked(packed({})).or_throw().size(), 0u);
}

// A small view of a large tensor sends its own elements only; an expanded one is written out.
TEST(Tensors, SendOnlyTheElementsOfAView) {
  const at::Tensor large = at::arange(1'000'000);
  const Packed row = packed({large.view({1000, 1000})[7]});
  EXPECT_EQ(row.payloads.at(0).size_bytes(), 1000 * sizeof(std::int64_t));
  const at::Tensor expanded = at::arange(3).view({3, 1}).expand({3, 4});
  EXPECT_EQ(packed({expanded}).payloads.at(0).size_bytes(), 12 * sizeof(std::int64_t));
  EXPECT_TRUE(at::equal(crossed(expanded), expanded));
}

// Lazy views cross as their values: conjugate, negative, and torch's zero tensors.
TEST(Tensors, ResolveConjugateNegativeAndZeroViews) {
  const at::Tensor numbers = at::arange(4.0).view({2, 2});
  const at::Tensor complex = at::view_as_complex(numbers);
  const at::Tensor received = crossed(complex.conj());
  EXPECT_FALSE(received.is_conj());
  EXPECT_TRUE(at::equal(received, complex.conj().resolve_conj()));
  const at::Tensor imaginary = at::imag(complex.conj());
  ASSERT_TRUE(imaginary.is_neg());
  EXPECT_FALSE(crossed(imaginary).is_neg());
  EXPECT_TRUE(at::equal(crossed(imaginary), imaginary.resolve_neg()));
  const at::Tensor zero = at::_efficientzerotensor({2, 3}, at::TensorOptions(at::kFloat));
  EXPECT_FALSE(crossed(zero)._is_zerotensor());
  EXPECT_TRUE(at::equal(crossed(zero), at::zeros({2, 3})));
}

// COO: indices in their order, duplicates included, values (hybrid too), sizes, the coalesced flag.
TEST(Tensors, KeepSparseOnesAsTheyAre) {
  const at::Tensor indices = at::tensor(std::vector<std::int64_t>{2, 0, 2, 1, 1, 1}).view({2, 3});
  for (const at::Tensor& values : {at::arange(3.0), at::arange(6.0).view({3, 2})}) {
    std::vector<std::int64_t> sizes{4, 5};
    if (values.dim() == 2) sizes.push_back(2);
    const at::Tensor sent = at::sparse_coo_tensor(indices, values, sizes);
    const at::Tensor received = crossed(sent);
    EXPECT_FALSE(received.is_coalesced());
    EXPECT_EQ(received.sizes(), sent.sizes());
    EXPECT_TRUE(at::equal(received._indices(), indices));
    EXPECT_TRUE(at::equal(received._values(), values));
    const at::Tensor coalesced = crossed(sent.coalesce());
    EXPECT_TRUE(coalesced.is_coalesced());
    EXPECT_TRUE(at::equal(coalesced.to_dense(), sent.to_dense()));
  }
  const at::Tensor empty = crossed(at::sparse_coo_tensor({4, 5}, at::TensorOptions(at::kFloat)));
  EXPECT_EQ(empty._nnz(), 0);
}

TEST(Tensors, KeepCompressedSparseLayouts) {
  const at::Tensor dense = at::arange(24.0).mul(at::arange(24).remainder(3)).view({4, 6});
  for (const at::Tensor& sent : {dense.to_sparse_csr(), dense.to_sparse_csc(),
                                 dense.to_sparse_bsr({2, 3}), dense.to_sparse_bsc({2, 3})}) {
    const at::Tensor received = crossed(sent);
    EXPECT_EQ(received.layout(), sent.layout());
    EXPECT_TRUE(at::equal(received.to_dense(), dense));
  }
}

// What has no plain bytes here is refused by name, and nothing was written.
TEST(Tensors, RefuseByNameWhatCannotCross) {
  const at::Tensor good = at::zeros({2});
  const auto expect_refused = [&](const at::Tensor& bad, const std::string& word) {
    Packed result;
    Writer writer(result.header);
    const Tensors both{good, bad};
    const Status status = pack_tensors(both, writer, result.payloads);
    ASSERT_EQ(status.code(), Code::bad_argument) << word;
    EXPECT_NE(status.failure().message.find("tensor 1"), std::string::npos);
    EXPECT_NE(status.failure().message.find(word), std::string::npos) << status.failure().message;
    EXPECT_TRUE(result.header.empty());
    EXPECT_TRUE(result.payloads.empty());
  };
  expect_refused(at::quantize_per_tensor(good, 0.1, 0, at::kQInt8), "QInt8");
  expect_refused(at::empty({2}, at::TensorOptions(at::kMeta)), "meta");
}

// The receiver gets the values of the moment of sending; later writes on either side stay there.
TEST(Tensors, AreNotSharedBetweenSenderAndReceiver) {
  const at::Tensor sent = at::arange(1000.0);
  const Packed message = packed({sent, sent.view({10, 100}).t()});
  sent.fill_(-1);
  Tensors received = unpacked(message).or_throw();
  EXPECT_TRUE(at::equal(received[0], at::arange(1000.0)));
  EXPECT_TRUE(at::equal(received[1], at::arange(1000.0).view({10, 100}).t()));
  received[0].fill_(7);
  EXPECT_EQ(sent[3].item<double>(), -1);
  EXPECT_EQ(received[1][1][0].item<double>(), 1);
}

// Two receivers of one message (a duplicate) must not share either.
TEST(Tensors, OfAMessageThatIsHeldTwiceAreCopied) {
  const Packed first = packed({at::arange(100.0)});
  const Packed second = first;
  const at::Tensor left = unpacked(first).or_throw().at(0);
  const at::Tensor right = unpacked(second).or_throw().at(0);
  left.fill_(7);
  EXPECT_TRUE(at::equal(right, at::arange(100.0)));
}

// Given away, nobody else holding it: no byte is copied on the whole way.
TEST(Tensors, GivenAwayCrossWithoutACopy) {
  Tensors sent{at::arange(100.0)};
  const void* memory = sent[0].const_data_ptr();
  const Packed message = packed_away(std::move(sent));
  EXPECT_EQ(message.payloads[0].bytes().data(), memory);
  EXPECT_EQ(unpacked(message).or_throw().at(0).const_data_ptr(), memory);
}

// What was received and is sent on (a function that returns its argument) is not copied either,
// unless somebody else has the same memory.
TEST(Tensors, AdoptedAndGivenAwayTravelOnWithoutACopy) {
  Tensors received = crossed_away({at::arange(100.0)});
  const void* memory = received[0].const_data_ptr();
  const Packed onward = packed_away(std::move(received));
  EXPECT_EQ(onward.payloads[0].bytes().data(), memory);

  Tensors kept = crossed_away({at::arange(100.0)});
  const at::Tensor view = kept[0].slice(0, 0, 10);
  const Packed copied = packed_away(std::move(kept));
  EXPECT_NE(copied.payloads[0].bytes().data(), view.const_data_ptr());
}

// Given away, but reachable by others: a second handle, a view, or the user's own memory.
TEST(Tensors, GivenAwayThatOthersHoldAreCopied) {
  const at::Tensor handle = at::arange(100.0);
  const at::Tensor viewed = at::arange(100.0);
  std::vector<double> own(100, 3.0);
  Tensors sent{handle, viewed.view({10, 10}),
               at::from_blob(own.data(), {100}, at::TensorOptions(at::kDouble))};
  const Packed message = packed_away(std::move(sent));
  handle.fill_(-1);
  viewed.fill_(-1);
  std::fill(own.begin(), own.end(), -1.0);
  const Tensors received = unpacked(message).or_throw();
  EXPECT_TRUE(at::equal(received[0], at::arange(100.0)));
  EXPECT_TRUE(at::equal(received[1], at::arange(100.0).view({10, 10})));
  EXPECT_EQ(received[2].sum().item<double>(), 300);
}

// A tensor with adopted memory can grow, like any other.
TEST(Tensors, CanBeResizedByTheReceiver) {
  const at::Tensor received = crossed(at::arange(10));
  received.resize_({1000});
  EXPECT_EQ(received.numel(), 1000);
  EXPECT_TRUE(at::equal(received.slice(0, 0, 10), at::arange(10)));
}

// Values cross without history, and packing adds none.
TEST(Tensors, CrossWithoutHistory) {
  const at::Tensor leaf = at::arange(4.0).requires_grad_();
  const at::Tensor used = leaf.mul(2);
  const at::Tensor received = crossed(used.t());
  EXPECT_FALSE(received.requires_grad());
  EXPECT_TRUE(used.requires_grad());
  EXPECT_TRUE(at::equal(received, used.detach()));
}

// A header that is cut short anywhere is corrupt, never a crash or a tensor too many.
TEST(Tensors, OfACutHeaderAreCorrupt) {
  const at::Tensor coo = at::arange(12.0).view({3, 4}).to_sparse();
  const Packed whole = packed({at::arange(6).view({2, 3}).t(), coo, at::Tensor(), at::tensor(1.0)});
  for (std::size_t size = 0; size < whole.header.size(); ++size) {
    const Packed cut{
        Bytes(whole.header.begin(), whole.header.begin() + static_cast<std::ptrdiff_t>(size)),
        whole.payloads};
    EXPECT_EQ(unpacked(cut).code(), Code::corrupt) << size;
  }
}

// Sizes whose product overflows, negative ones, overlapping strides, wrong payloads.
TEST(Tensors, ThatDoNotAgreeWithTheirBytesAreCorrupt) {
  const auto header = [](TensorKind kind, at::ScalarType dtype, std::vector<std::uint64_t> sizes,
                         std::vector<std::uint64_t> strides = {}) {
    Packed result;
    Writer writer(result.header);
    writer.put_varint(1);
    writer.put(kind);
    writer.put(dtype);
    writer.put_varint(sizes.size());
    for (const std::uint64_t size : sizes) writer.put_varint(size);
    for (const std::uint64_t stride : strides) writer.put_varint(stride);
    return over_a_wire(
        {result.header, packed({at::arange(4, at::TensorOptions(at::kDouble))}).payloads});
  };
  const std::uint64_t huge = std::uint64_t{1} << 62;
  EXPECT_TRUE(unpacked(header(TensorKind::contiguous, at::kDouble, {2, 2})).ok());
  EXPECT_TRUE(unpacked(header(TensorKind::strided, at::kDouble, {2, 2}, {1, 2})).ok());
  for (const Packed& bad : {
           header(TensorKind::contiguous, at::kDouble, {5}),
           header(TensorKind::contiguous, at::kDouble, {3}),
           header(TensorKind::contiguous, at::kDouble, {huge, huge}),
           header(TensorKind::contiguous, at::kDouble, {huge, 0, huge}),
           header(TensorKind::contiguous, at::kDouble, {huge}),
           header(TensorKind::contiguous, at::kDouble, {~std::uint64_t{0}}),
           header(TensorKind::contiguous, at::kQInt8, {32}),
           header(TensorKind::contiguous, static_cast<at::ScalarType>(99), {4}),
           header(TensorKind::contiguous, static_cast<at::ScalarType>(-1), {4}),
           header(TensorKind::strided, at::kDouble, {2, 2}, {1, 1}),
           header(TensorKind::strided, at::kDouble, {2, 2}, {1, 3}),
           header(TensorKind::strided, at::kDouble, {2, 2}, {0, 1}),
           header(TensorKind::strided, at::kDouble, {2, 2}, {1, huge}),
           header(static_cast<TensorKind>(77), at::kDouble, {4}),
       }) {
    EXPECT_EQ(unpacked(bad).code(), Code::corrupt);
  }
  Packed missing = packed({at::arange(4.0)});
  missing.payloads.clear();
  EXPECT_EQ(unpacked(missing).code(), Code::corrupt);
}

// Indices of a sparse tensor that point outside it would be written through by torch unchecked.
TEST(Tensors, WithIndicesOutsideTheirSizesAreCorrupt) {
  const at::Tensor indices = at::tensor(std::vector<std::int64_t>{0, 3, 2, 1}).view({2, 2});
  Packed message = over_a_wire(packed({at::sparse_coo_tensor(indices, at::arange(2.0), {4, 4})}));
  auto* bytes = const_cast<std::byte*>(message.payloads[0].bytes().data());
  bytes[0] = std::byte{200};
  EXPECT_EQ(unpacked(message).code(), Code::corrupt);
}

// Any header bytes: an answer, and no read or write outside the payload (run it under asan).
RC_GTEST_PROP(TensorsProperty, SurviveAnyDamageToTheHeader, ()) {
  const at::Tensor dense = at::arange(6).view({2, 3}).t();
  Packed message = packed({dense, at::arange(12.0).view({3, 4}).to_sparse()});
  const auto hits = *rc::gen::inRange(1, 4);
  for (int hit = 0; hit < hits; ++hit) {
    const auto at = *rc::gen::inRange<std::size_t>(0, message.header.size());
    message.header[at] = static_cast<std::byte>(*rc::gen::arbitrary<std::uint8_t>());
  }
  Reader reader(message.header);
  std::size_t next_payload = 0;
  const auto result = unpack_tensors(reader, message.payloads, next_payload);
  RC_ASSERT(result.ok() || result.code() == Code::corrupt);
}

// Any shape in any order of dimensions keeps its strides and bits.
RC_GTEST_PROP(TensorsProperty, KeepStridesAndBitsOfDenseTensors, ()) {
  const auto sizes = *rc::gen::resize(
      5, rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(0, 4)));
  std::vector<std::int64_t> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  Random random(*rc::gen::arbitrary<std::uint64_t>());
  std::shuffle(order.begin(), order.end(), random);
  const at::Tensor tensor = random_bits(sizes, at::kFloat).permute(order);
  const at::Tensor received = crossed(tensor);
  RC_ASSERT(received.sizes() == tensor.sizes());
  RC_ASSERT(received.strides() == tensor.strides());
  RC_ASSERT(same_bits(received, tensor));
}

}  // namespace
}  // namespace rehearse::rpc
