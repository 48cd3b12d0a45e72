#include "runtime/autograd/gradients.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "runtime/autograd/segments.hpp"
#include "tests/autograd/graphs.hpp"

namespace rehearse::autograd {
namespace {

using namespace testing;

GradientMap map_of(const at::Tensor& leaf, const at::Tensor& gradient, FirstUse use = {}) {
  GradientMap map;
  map.accumulate(leaf, gradient, 1, use);
  return map;
}

at::Tensor sparse_rows(std::initializer_list<std::int64_t> rows) {
  const at::Tensor indices = at::tensor(rows, at::kLong).unsqueeze(0);
  return at::sparse_coo_tensor(indices, at::ones({indices.size(1), 3}), {5, 3});
}

// As in a first-order pass: grad mode is off while nodes run.
class GradientMapTest : public ::testing::Test {
 private:
  at::NoGradGuard no_grad_;
};

// A buffer that nobody else holds is taken over, one that somebody holds is copied.
TEST_F(GradientMapTest, TakesOverOnlyBuffersThatNobodyElseHolds) {
  const at::Tensor leaf = random_leaf(1, {4});
  at::Tensor mine = at::ones({4});
  const void* memory = mine.data_ptr();
  EXPECT_NE(map_of(leaf, at::Tensor(mine)).gradient(leaf).data_ptr(), memory);
  GradientMap map;
  map.accumulate(leaf, mine, 1, {});
  EXPECT_EQ(map.gradient(leaf).data_ptr(), memory);
  EXPECT_FALSE(leaf.grad().defined());
}

// What a failed pass computed must not have reached the tensors that users hold.
TEST_F(GradientMapTest, MergingChangesNoTensorOfTheMap) {
  const at::Tensor leaf = random_leaf(1, {5, 3});
  for (const at::Tensor& present : {at::ones({5, 3}), sparse_rows({1, 2})}) {
    for (const at::Tensor& added : {at::full({5, 3}, 2.0), sparse_rows({2, 2})}) {
      const GradientMap map = map_of(leaf, present.clone());
      const std::uint64_t before = digest(map.gradient(leaf));
      const GradientMap merged = map.merged(map_of(leaf, added.clone()), nullptr);
      EXPECT_EQ(digest(map.gradient(leaf)), before);
      EXPECT_TRUE(
          at::equal(merged.gradient(leaf).to_dense(), present.to_dense() + added.to_dense()));
    }
  }
}

// Out of place, yet the bits and strides of adding to `.grad`.
TEST_F(GradientMapTest, MergesToWhatTorchWouldAccumulate) {
  const at::Tensor leaf = random_leaf(1, {6, 5}).detach().t().requires_grad_(true);
  const at::Tensor first = random_leaf(2, {5, 6}).detach();
  const at::Tensor second = random_leaf(3, {6, 5}).detach().t();
  at::Tensor accumulated = at::empty_strided({5, 6}, leaf.strides()).copy_(first);
  accumulated += second;
  const GradientMap merged =
      map_of(leaf, first.clone()).merged(map_of(leaf, second.clone()), nullptr);
  EXPECT_TRUE(same(merged.gradient(leaf), accumulated));
}

// Sequence numbers say that `late` was used first; the segments know better.
TEST_F(GradientMapTest, OrdersByTheProgramNotByTheOrderOfInsertion) {
  Segments segments;
  segments.open(1, std::make_shared<const CallPath>(CallPath{1, 3}), 0);
  segments.close(2);
  segments.open(2, std::make_shared<const CallPath>(CallPath{1, 1}), 0);
  segments.close(3);
  segments.freeze();
  const at::Tensor late = random_leaf(1, {2});
  const at::Tensor early = random_leaf(2, {2});
  const at::Tensor root = random_leaf(3, {2});
  GradientMap map;
  map.accumulate(root, at::ones({2}), 1, {});
  map.accumulate(late, at::ones({2}), 1, {1, 0});
  map.accumulate(early, at::ones({2}), 1, {2, 0});
  const auto entries = map.in_order(&segments);
  EXPECT_TRUE(entries[0].leaf.is_same(early));
  EXPECT_TRUE(entries[1].leaf.is_same(late));
  EXPECT_TRUE(entries[2].leaf.is_same(root));
  EXPECT_TRUE(map.in_order(nullptr)[0].leaf.is_same(late));
}

TEST_F(GradientMapTest, AMergedLeafKeepsItsEarlierUse) {
  const at::Tensor a = random_leaf(1, {2});
  GradientMap map = map_of(a, at::ones({2}), {7, 1});
  EXPECT_EQ(
      map.merged(map_of(a, at::ones({2}), {3, 0}), nullptr).in_order(nullptr)[0].first_use.sequence,
      3u);
  EXPECT_EQ(
      map.merged(map_of(a, at::ones({2}), {9, 0}), nullptr).in_order(nullptr)[0].first_use.sequence,
      7u);
}

TEST(Digest, DoesNotSeeStridesOrPendingConjugation) {
  const at::Tensor x = random_leaf(1, {4, 5}).detach();
  EXPECT_EQ(digest(x), digest(x.t().contiguous().t()));
  const at::Tensor z = at::complex(x, x.sin());
  EXPECT_EQ(digest(z.conj()), digest(z.conj().resolve_conj()));
  EXPECT_EQ(digest(x.neg()), digest(at::_neg_view(x)));
}

TEST(Digest, TellsUndefinedFromZeroAndEmpty) {
  EXPECT_NE(digest(at::Tensor()), digest(at::zeros({1})));
  EXPECT_NE(digest(at::zeros({0})), digest(at::zeros({0, 3})));
  EXPECT_NE(digest(at::zeros({2})), digest(at::zeros({2}, at::kInt)));
  EXPECT_NE(digest(at::zeros({1})), digest(-at::zeros({1})));
}

TEST(Digest, OfSparseTensorsSeesTheirForm) {
  EXPECT_EQ(digest(sparse_rows({1, 2})), digest(sparse_rows({1, 2})));
  EXPECT_NE(digest(sparse_rows({1, 2})), digest(sparse_rows({1, 2}).coalesce()));
  EXPECT_NE(digest(sparse_rows({1, 2})), digest(sparse_rows({2, 1})));
  EXPECT_NE(digest(sparse_rows({1})), digest(sparse_rows({1}).to_dense()));
  const at::Tensor csr = at::eye(3).to_sparse_csr();
  EXPECT_NE(digest(csr), digest(at::eye(3).to_sparse_csc()));
}

// Any single bit, at any place and size, changes the digest.
RC_GTEST_PROP(Digest, SeesEveryBit, ()) {
  const auto size = *rc::gen::inRange<std::int64_t>(1, 100);
  const at::Tensor bytes = at::arange(size, at::kByte);
  const at::Tensor other = bytes.clone();
  other.mutable_data_ptr<std::uint8_t>()[*rc::gen::inRange<std::int64_t>(0, size)] ^=
      1 << *rc::gen::inRange(0, 8);
  RC_ASSERT(digest(bytes) != digest(other));
}

}  // namespace
}  // namespace rehearse::autograd
