#pragma once

#include "runtime/worker/worker.hpp"
