#include "runtime/world/delivery.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/random.hpp"

namespace rehearse {
namespace {

using namespace std::chrono_literals;

Message text(std::string_view what) { return {MessageKind::user, bytes_of(what), {}}; }

constexpr Acks kNothing{};

// What is in the air: a copy of a message, or of an acknowledgement.
struct Flying {
  bool is_ack = false;
  Lane lane{};
  std::uint64_t sequence = 0;
  std::string text;
  Acks acks{};
  bool damaged = false;
};

// One side: its delivery, what it has handed on, what it was told to send.
struct Side {
  Delivery delivery{DeliveryLimits{.resend = 50ms}};
  std::vector<Flying> towards;  // in the air, to this side
  std::map<Lane, std::vector<std::string>> heard;
  std::map<Lane, std::vector<std::string>> told;
};

// Two sides with a transport between them that does everything a bad one can do.
class Link {
 public:
  explicit Link(std::uint64_t seed) : random_(seed) { connect(); }

  void run(int steps) {
    for (int i = 0; i < steps && !lost(); ++i) step();
  }

  // From here the transport behaves; what was lost must come again by replay.
  void settle() {
    for (int i = 0; i < 1000 && !lost() && !quiet(); ++i) {
      break_off();
      connect();
      for (int from : {0, 1}) transmit_all(from);
      for (int to : {0, 1}) {
        while (!sides_[to].towards.empty()) land(to, 0);
      }
    }
  }

  void lose() {
    for (Side& side : sides_) side.delivery.lose();
  }
  bool lost() const { return sides_[0].delivery.lost(); }
  bool quiet() const {
    return sides_[0].delivery.all_acknowledged() && sides_[1].delivery.all_acknowledged();
  }
  Side& side(int i) { return sides_[static_cast<std::size_t>(i)]; }
  void step() {
    const int who = static_cast<int>(random_.below(2));
    now_ += 1ms;
    switch (random_.below(12)) {
      case 0:
      case 1:
      case 2:
        submit(who);
        break;
      case 3:
      case 4:
        transmit(who);
        break;
      case 5:
      case 6:
        land(who, 0);
        break;
      case 7:
        land(who, pick(who));
        break;  // reordered
      case 8:
        repeat(who);
        break;
      case 9:
        drop(who);
        break;
      case 10:
        damage(who);
        break;
      case 11:
        random_.chance(0.3) ? reconnect() : acknowledge(who);
        break;
    }
    for (Side& side : sides_) {
      if (side.delivery.resend_at() <= now_) side.delivery.resend(now_);
    }
  }

 private:
  void connect() {
    const Acks of_0 = sides_[0].delivery.acks(), of_1 = sides_[1].delivery.acks();
    const Code expected = lost() ? Code::peer_lost : Code::ok;
    RC_ASSERT(sides_[0].delivery.connected(of_1, now_).code() == expected);
    RC_ASSERT(sides_[1].delivery.connected(of_0, now_).code() == expected);
  }
  void break_off() {
    for (Side& side : sides_) {
      side.delivery.disconnected(now_);
      side.towards.clear();
    }
  }
  void reconnect() {
    break_off();
    connect();
  }
  void submit(int who) {
    const Lane lane = random_.chance(0.5) ? Lane::control : Lane::data;
    std::string what = fmt::format("{}:{}", who, ++counter_);
    side(who).told[lane].push_back(what);
    side(who).delivery.submit(lane, text(what), 0);
  }
  bool transmit(int who, Lane lane) {
    Delivery& from = side(who).delivery;
    const Outgoing* next = from.next(lane);
    if (!next) return false;
    side(1 - who).towards.push_back(
        {false, lane, next->sequence, std::string(text_of(next->message.header)), from.acks()});
    from.sent(lane, now_);
    from.acks_told();
    return true;
  }
  void transmit(int who) { transmit(who, random_.chance(0.5) ? Lane::control : Lane::data); }
  void transmit_all(int who) {
    for (Lane lane : {Lane::control, Lane::data}) {
      while (transmit(who, lane)) {
      }
    }
    acknowledge(who);
  }
  void acknowledge(int who) {
    side(1 - who).towards.push_back({true, {}, 0, "", side(who).delivery.acks()});
    side(who).delivery.acks_told();
  }
  std::size_t pick(int who) { return random_.below(side(who).towards.size() + 1); }
  void land(int who, std::size_t index) {
    Side& to = side(who);
    if (index >= to.towards.size()) return;
    const Flying flying = to.towards[index];
    to.towards.erase(to.towards.begin() + static_cast<std::ptrdiff_t>(index));
    if (!flying.damaged) RC_ASSERT(to.delivery.acknowledged(flying.acks, now_).ok());
    if (flying.is_ack) return;
    switch (to.delivery.arrived(flying.lane, flying.sequence, flying.text.size(), !flying.damaged,
                                now_)) {
      case Arrival::fresh:
        to.heard[flying.lane].push_back(flying.text);
        break;
      case Arrival::gap:
      case Arrival::corrupt:
        reconnect();
        break;
      case Arrival::duplicate:
      case Arrival::late:
        break;
    }
  }
  void repeat(int who) {
    auto& air = side(who).towards;
    if (const std::size_t index = pick(who); index < air.size()) air.push_back(Flying(air[index]));
  }
  void drop(int who) {
    auto& air = side(who).towards;
    if (const std::size_t index = pick(who); index < air.size()) {
      air.erase(air.begin() + static_cast<std::ptrdiff_t>(index));
    }
  }
  void damage(int who) {
    auto& air = side(who).towards;
    if (const std::size_t index = pick(who); index < air.size()) air[index].damaged = true;
  }

  Random random_;
  std::array<Side, 2> sides_;
  Time now_{};
  int counter_ = 0;
};

// Any mix of drops, repeats, reorderings, damage and disconnects, then a transport that behaves:
// each side has heard exactly what the other was told to send, in that order, on each lane.
RC_GTEST_PROP(Delivery, WhateverTheTransportDoesEachMessageArrivesOnceAndInOrder,
              (std::uint64_t seed)) {
  Link link(seed);
  link.run(*rc::gen::inRange(0, 400));
  link.settle();
  RC_ASSERT(link.quiet());
  for (int who : {0, 1}) {
    for (Lane lane : {Lane::control, Lane::data}) {
      RC_ASSERT(link.side(1 - who).heard[lane] == link.side(who).told[lane]);
    }
    RC_ASSERT(link.side(who).delivery.unacknowledged_bytes() == 0u);
  }
}

// Given up at any moment, a side has heard a beginning of what was sent, and hears nothing more.
RC_GTEST_PROP(Delivery, ALostPeerWasHeardUpToSomePlaceAndIsNeverHeardAgain, (std::uint64_t seed)) {
  Link link(seed);
  link.run(*rc::gen::inRange(0, 200));
  auto heard = link.side(1).heard;
  link.lose();
  for (int i = 0; i < 100; ++i) link.step();
  for (Lane lane : {Lane::control, Lane::data}) {
    const auto& told = link.side(0).told[lane];
    RC_ASSERT(heard[lane].size() <= told.size());
    RC_ASSERT(std::equal(heard[lane].begin(), heard[lane].end(), told.begin()));
    RC_ASSERT(link.side(1).heard[lane] == heard[lane]);
  }
  RC_ASSERT(link.side(0).delivery.unacknowledged_bytes() == 0u);
}

// An acknowledgement of what was never sent is refused: a peer cannot make messages disappear.
TEST(Delivery, AnAcknowledgementOfWhatWasNeverSentIsRefused) {
  Delivery delivery{{}};
  delivery.submit(Lane::data, text("a"), 0);
  ASSERT_TRUE(delivery.connected(kNothing, Time{}).ok());
  EXPECT_EQ(delivery.acknowledged({0, 1}, Time{}).code(), Code::corrupt);
  delivery.sent(Lane::data, Time{});
  EXPECT_TRUE(delivery.acknowledged({0, 1}, Time{}).ok());
  EXPECT_TRUE(delivery.all_acknowledged());
}

// Without a connection the peer has the stated time to come back; a connection stops that clock.
TEST(Delivery, APeerIsGivenUpAfterTheReconnectBoundAndNotBefore) {
  Delivery delivery{{.reconnect = 1s}};
  ASSERT_TRUE(delivery.connected(kNothing, Time{}).ok());
  EXPECT_EQ(delivery.give_up_at(), kNever);
  delivery.disconnected(Time(5s));
  delivery.disconnected(Time(5500ms));
  EXPECT_EQ(delivery.give_up_at(), Time(6s));
  ASSERT_TRUE(delivery.connected(kNothing, Time(5900ms)).ok());
  EXPECT_EQ(delivery.give_up_at(), kNever);
}

// An acknowledgement waits a little for company, except after much has arrived.
TEST(Delivery, AnAcknowledgementWaitsUntilItIsDueAndIsToldOnce) {
  Delivery delivery{{.ack_delay = 2ms, .ack_bytes = 1000}};
  ASSERT_TRUE(delivery.connected(kNothing, Time{}).ok());
  EXPECT_EQ(delivery.ack_at(), kNever);
  EXPECT_EQ(delivery.arrived(Lane::data, 1, 10, true, Time(1ms)), Arrival::fresh);
  EXPECT_EQ(delivery.ack_at(), Time(3ms));
  EXPECT_EQ(delivery.arrived(Lane::data, 2, 990, true, Time(2ms)), Arrival::fresh);
  EXPECT_EQ(delivery.ack_at(), Time(2ms));
  EXPECT_EQ(delivery.acks(), (Acks{0, 2}));
  delivery.acks_told();
  EXPECT_EQ(delivery.ack_at(), kNever);
}

// Credit is counted in what was handed over and not acknowledged.
TEST(Delivery, UnacknowledgedBytesCountHeadersAndPayloadsUntilTheyAreAcknowledged) {
  Delivery delivery{{}};
  ASSERT_TRUE(delivery.connected(kNothing, Time{}).ok());
  auto bytes = std::make_shared<Bytes>(100);
  Message message = text("12345");
  message.payloads.emplace_back(bytes, *bytes);
  delivery.submit(Lane::data, std::move(message), 0);
  delivery.submit(Lane::control, text("123"), 0);
  EXPECT_EQ(delivery.unacknowledged_bytes(), 108u);
  delivery.sent(Lane::data, Time{});
  EXPECT_EQ(delivery.unacknowledged_bytes(), 108u);
  ASSERT_TRUE(delivery.acknowledged({0, 1}, Time{}).ok());
  EXPECT_EQ(delivery.unacknowledged_bytes(), 3u);
}

}  // namespace
}  // namespace rehearse
