"""Lua scripts of the accounts of budgets; each is atomic.

The keys of an account are its hash, the leases of its reservations, and their amounts. Fields of the hash:

==========================  ==========================================================================
``start``                   start of the period
``spent``, ``held``         settled and reserved amounts
``recent``, ``counted``     exponentially decayed number of settled items, and the time of this number
``since``                   time of the first settled item; like ``recent``, it survives the period
==========================  ==========================================================================

The first argument is the time; if it is empty, the store's clock is used.
"""

_COMMON = """
local clock = redis.call('TIME')
local now = ARGV[1] ~= '' and tonumber(ARGV[1]) or clock[1] + clock[2] / 1000000
local function write(number)
    return string.format('%.17g', number)
end
local function month_start(days)
    local era = days + 719468
    local cycle = math.floor(era / 146097)
    local day = era - cycle * 146097
    local year = math.floor((day - math.floor(day / 1460) + math.floor(day / 36524) - math.floor(day / 146096)) / 365)
    local of_year = day - (365 * year + math.floor(year / 4) - math.floor(year / 100))
    local month = math.floor((5 * of_year + 2) / 153)
    return days - (of_year - math.floor((153 * month + 2) / 5))
end
local lengths = {minute = 60, hour = 3600, day = 86400}
local function period_of(name)
    if name == 'total' then
        return 0, 0
    end
    if lengths[name] then
        local start = now - now % lengths[name]
        return start, start + lengths[name]
    end
    local first = month_start(math.floor(now / 86400))
    return first * 86400, month_start(first + 31) * 86400
end
local memory = 1 / 20 -- of the period, in which the weight of an item falls by a factor of e
local function decay_items(state)
    return state.recent * math.exp((state.counted - now) / (memory * (state.finish - state.start)))
end
local function expect_items(state)
    if state.recent == 0 or state.finish == 0 then
        return 0
    end
    local span = memory * (state.finish - state.start)
    local observed = math.max(now - state.since, span / 4)
    local rate = decay_items(state) / (span * (1 - math.exp(-observed / span)))
    return rate * (state.finish - now)
end
local function count_items(state, items)
    if items > 0 and state.finish > 0 then
        state.since = state.recent > 0 and state.since or now
        state.recent = decay_items(state) + items
        state.counted = now
    end
end
local function read(place, period)
    local account, leases, amounts = KEYS[place], KEYS[place + 1], KEYS[place + 2]
    local start, finish = period_of(period)
    local kept = redis.call('HMGET', account, 'start', 'spent', 'held', 'recent', 'counted', 'since')
    local spent, held = tonumber(kept[2] or '0'), tonumber(kept[3] or '0')
    if start > tonumber(kept[1] or '0') then
        spent = 0
    end
    for _, id in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', write(now), 'LIMIT', 0, 1000)) do
        held = held - tonumber(redis.call('HGET', amounts, id) or '0')
        redis.call('HDEL', amounts, id)
        redis.call('ZREM', leases, id)
    end
    if redis.call('ZCARD', leases) == 0 then
        held = 0
    end
    local recent, counted, since = tonumber(kept[4] or '0'), tonumber(kept[5] or '0'), tonumber(kept[6] or '0')
    return {
        place = place, start = start, finish = finish, spent = spent, held = held,
        recent = recent, counted = counted, since = since
    }
end
local function keep(state, kept_s)
    local account, leases, amounts = KEYS[state.place], KEYS[state.place + 1], KEYS[state.place + 2]
    redis.call(
        'HSET', account, 'start', write(state.start), 'spent', write(state.spent), 'held', write(state.held),
        'recent', write(state.recent), 'counted', write(state.counted), 'since', write(state.since)
    )
    for _, key in ipairs({account, leases, amounts}) do
        if state.finish > 0 then
            redis.call('EXPIRE', key, math.ceil(state.finish - now) + kept_s)
        else
            redis.call('PERSIST', key)
        end
    end
end
local function report(reply, state)
    reply[#reply + 1] = write(state.spent)
    reply[#reply + 1] = write(state.held)
    reply[#reply + 1] = write(state.finish)
    reply[#reply + 1] = write(expect_items(state))
end
"""
RESERVE_SCRIPT = (
    _COMMON
    + """
local id, lease_s, rounding, kept_s = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local states, restricted, refused = {}, 0, 0
local count = (#KEYS - 1) / 3
local is_known = redis.call('EXISTS', KEYS[1]) == 1
for i = 1, count do
    local at = 6 + (i - 1) * 6
    local state = read(2 + (i - 1) * 3, ARGV[at + 1])
    state.amount, state.rule = tonumber(ARGV[at]), ARGV[at + 2]
    state.full, state.least = tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4])
    if ARGV[at + 5] ~= '' then
        local elapsed = (now - state.start) / (state.finish - state.start)
        state.amount = state.amount * math.min(1, tonumber(ARGV[at + 5]) + elapsed)
    end
    state.own = tonumber(redis.call('HGET', KEYS[state.place + 2], id) or '0')
    state.free = state.amount * (1 + rounding) - state.spent - state.held + state.own
    states[i] = state
    if state.rule == 'cheapest' and state.full > state.free then
        restricted = 1
    end
end
for i, state in ipairs(states) do
    state.take = restricted == 1 and state.least or state.full
    if state.rule == 'refuse' and refused == 0 and state.take > state.free then
        refused = i
    end
end
local reply = {refused > 0 and -refused or restricted}
for _, state in ipairs(states) do
    local leases, amounts = KEYS[state.place + 1], KEYS[state.place + 2]
    if refused == 0 and not is_known and not redis.call('ZSCORE', leases, id) then
        redis.call('ZADD', leases, write(now + lease_s), id)
        redis.call('HSET', amounts, id, write(state.take))
        state.held = state.held + state.take
    end
    keep(state, kept_s)
    report(reply, state)
end
return reply
"""
)
"""Reserves on all accounts, or on none.

By account: its amount, period, and rule, what the item takes of it, at most, and with the cheapest classifier only, and
for a paced amount the share that is released from the start.
Returns 0 if reserved, 1 if only with the cheapest classifier, and -i if account i refuses; then what each account has
spent and reserved, the end of its period, and the number of items that are expected until then.
"""
SETTLE_SCRIPT = (
    _COMMON
    + """
local id, kept_s, items = ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[5])
local is_first = redis.call('SET', KEYS[1], 'settled', 'NX', 'EX', ARGV[3])
local reply = {is_first and 1 or 0}
for i = 1, (#KEYS - 1) / 3 do
    local at = 6 + (i - 1) * 2
    local state = read(2 + (i - 1) * 3, ARGV[at])
    local leases, amounts = KEYS[state.place + 1], KEYS[state.place + 2]
    local held = redis.call('HGET', amounts, id)
    if held then
        redis.call('HDEL', amounts, id)
        redis.call('ZREM', leases, id)
        state.held = redis.call('ZCARD', leases) == 0 and 0 or state.held - tonumber(held)
    end
    if is_first then
        state.spent = state.spent + tonumber(ARGV[at + 1])
        count_items(state, items)
    end
    keep(state, kept_s)
    report(reply, state)
end
return reply
"""
)
"""Ends a reservation, and adds what its items have used, and their number, once by its id. Returns whether it was the
first time, and the state of each account."""
RENEW_SCRIPT = (
    _COMMON
    + """
for i = 3, #ARGV do
    redis.call('ZADD', KEYS[1], 'XX', 'GT', write(now + tonumber(ARGV[2])), ARGV[i])
end
return {}
"""
)
"""Prolongs leases that have not ended."""
READ_SCRIPT = (
    _COMMON
    + """
local reply = {}
for i = 1, #KEYS / 3 do
    report(reply, read(1 + (i - 1) * 3, ARGV[1 + i]))
end
return reply
"""
)
