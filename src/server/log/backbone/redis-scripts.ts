import { PAGE_CHARS, SCAN_CHARS, SHORT_ROW } from '../log-store.js';

/**
 * All access to Redis is by these scripts: each is atomic, verifies the epoch of the log, and takes
 * one round trip. Rows are entries `<seq>-0` of a stream. Scripts check before they write, since
 * Redis has no rollback.
 */

/** Incremented with every change of the keys: of another form nothing is read. */
export const REDIS_FORM = 2;

/** Prefixes of the error replies of these scripts. */
export const ERROR_PREFIX = {
  otherEpoch: 'PSEPOCH',
  conflict: 'PSCONFLICT',
  damaged: 'PSDAMAGED',
  afterHead: 'PSAFTER',
};

const NOW = `local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))`;

const SAME_EPOCH = `if redis.call('HGET', KEYS[1], 'epoch') ~= ARGV[1] then
  return redis.error_reply('${ERROR_PREFIX.otherEpoch} the update log was emptied or replaced: it has another epoch')
end`;

/** KEYS meta, log. ARGV a new epoch. Returns epoch and form. */
export const OPEN = `
local epoch = redis.call('HGET', KEYS[1], 'epoch')
if not epoch then
  if redis.call('EXISTS', KEYS[2]) == 1 then return redis.error_reply('${ERROR_PREFIX.damaged} rows without an epoch') end
  redis.call('HSET', KEYS[1], 'epoch', ARGV[1], 'form', '${REDIS_FORM}', 'head', '0')
  epoch = ARGV[1]
end
return { epoch, redis.call('HGET', KEYS[1], 'form') }`;

/**
 * KEYS meta, log. ARGV a seq. Returns epoch, head, the time now, and that of the row: what may be
 * nil is last.
 */
export const LOOK = `
${NOW}
local row = redis.call('XRANGE', KEYS[2], ARGV[1] .. '-0', ARGV[1] .. '-0')
return { redis.call('HGET', KEYS[1], 'epoch'), redis.call('HGET', KEYS[1], 'head'), now, row[1] and row[1][2][4] }`;

/** KEYS meta. ARGV the old epoch, a new one. */
export const RENEW = `
${SAME_EPOCH}
redis.call('HSET', KEYS[1], 'epoch', ARGV[2])
return 1`;

/**
 * Forgets dedup texts, the oldest first: those that are not valid any more, and at most so many.
 * What is remembered are fields `<seq> <time>` of one hash, and their order is a list of
 * `<text> <seq>`; a text that was written again stands there twice.
 */
const FORGET = `
local function forget(kept, order, most, through, before)
  for _ = 1, most do
    local first = redis.call('LINDEX', order, 0)
    if not first then return end
    local text, at = string.match(first, '^(%S+) (%d+)$')
    local seq, time = string.match(redis.call('HGET', kept, text) or '', '^(%d+) (%d+)$')
    local isOwn = seq == at
    if isOwn and tonumber(seq) > through and tonumber(time) > before then return end
    redis.call('LPOP', order)
    if isOwn then redis.call('HDEL', kept, text) end
  end
end`;

/**
 * KEYS meta, log, dedup texts, their order. ARGV epoch, milliseconds and rows of dedup, expected
 * kind or an empty text, expected last seq, then kind, body and dedup text (may be empty) of each
 * row. Returns seq and 0, or 1 for a duplicate, for each row.
 */
export const APPEND = `
${SAME_EPOCH}
local last = ARGV[4] == 'any' and 'head' or 'last_' .. ARGV[4]
if ARGV[4] ~= '' and (redis.call('HGET', KEYS[1], last) or '0') ~= ARGV[5] then
  return redis.error_reply('${ERROR_PREFIX.conflict} another row is the last one')
end
${NOW}
${FORGET}
local head = tonumber(redis.call('HGET', KEYS[1], 'head'))
local through, before = tonumber(ARGV[3]), now - ARGV[2]
local function known(text)
  local seq, time = string.match(redis.call('HGET', KEYS[3], text) or '', '^(%d+) (%d+)$')
  return seq and tonumber(seq) > head - through and tonumber(time) > before and seq
end
local places, remembered = {}, 0
for i = 6, #ARGV, 3 do
  local kind, body, text = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local first = text ~= '' and known(text)
  if first then
    places[#places + 1] = first
    places[#places + 1] = 1
  else
    head = head + 1
    local seq = string.format('%.0f', head)
    local added = redis.pcall('XADD', KEYS[2], seq .. '-0', 'k', kind, 't', now, 'b', body)
    if type(added) == 'table' and string.find(added.err, 'equal or smaller', 1, true) then
      return redis.error_reply('${ERROR_PREFIX.afterHead} ' .. seq .. '-0')
    elseif type(added) == 'table' then
      return added
    end
    redis.call('HSET', KEYS[1], 'head', seq, 'last_' .. kind, seq)
    if text ~= '' then
      redis.call('HSET', KEYS[3], text, seq .. ' ' .. now)
      redis.call('RPUSH', KEYS[4], text .. ' ' .. seq)
      remembered = remembered + 1
    end
    places[#places + 1] = seq
    places[#places + 1] = 0
  end
end
if remembered > 0 then forget(KEYS[3], KEYS[4], 2 * remembered + 16, head - through, before) end
return places`;

/** KEYS meta. ARGV epoch, bytes. Writes them and takes them back. */
export const PROBE = `
${SAME_EPOCH}
redis.call('HSET', KEYS[1], 'probe', string.rep('x', tonumber(ARGV[2])))
redis.call('HDEL', KEYS[1], 'probe')
return 1`;

/**
 * Reads rows from a seq on, up to a number of rows or of bytes, in small chunks: as many as fit, if
 * they are as large as those before. What stands beside a place is among them, wherever a page or a
 * chunk begins; what stands after the head is none of them, and the first such id is returned, too.
 */
const PAGE = `
local function page(from, count)
  local rows, size = {}, 0
  local head = tonumber(redis.call('HGET', KEYS[1], 'head')) or 0
  local start = string.format('%.0f-1', from - 1)
  while #rows < count and size < ${PAGE_CHARS} do
    local fit = math.max(1, math.floor((${PAGE_CHARS} - size) * #rows / math.max(size, 1)))
    local some = redis.call('XRANGE', KEYS[2], start, '+', 'COUNT', math.min(count - #rows, fit, 16))
    if #some == 0 then break end
    for _, row in ipairs(some) do
      if tonumber(string.match(row[1], '^%d+')) > head then return rows, row[1] end
      rows[#rows + 1] = row
      size = size + #(row[2][6] or '')
    end
    local seq, beside = string.match(some[#some][1], '^(%d+)-(%d+)$')
    start = string.format('%s-%.0f', seq, tonumber(beside) + 1)
  end
  return rows
end`;

/**
 * KEYS meta, log. ARGV epoch, first seq, count. Returns rows in order, and the id of an entry that
 * follows them after the head.
 */
export const READ = `
${SAME_EPOCH}
${PAGE}
return { page(tonumber(ARGV[2]), tonumber(ARGV[3])) }`;

/**
 * KEYS meta, log. ARGV epoch, command, first seq, count, then for each list of the filter the
 * number of its texts, and the texts. Looks at rows in the order of the command, a few at a time.
 * Returns of each id, kind, time, bytes, whether it fits, and the body of a short one that does.
 */
export const SCAN = `
${SAME_EPOCH}
local lists, at = {}, 5
while ARGV[at] do
  local list = {}
  for i = 1, tonumber(ARGV[at]) do list[i] = ARGV[at + i] end
  lists[#lists + 1] = list
  at = at + #list + 1
end
local function fits(body)
  for _, list in ipairs(lists) do
    local found = false
    for _, text in ipairs(list) do
      if string.find(body, text, 1, true) then
        found = true
        break
      end
    end
    if not found then return false end
  end
  return true
end
local command, from, count = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local ends, step = string.format('%.0f-0', tonumber(redis.call('HGET', KEYS[1], 'head')) or 0), 1
if command == 'XREVRANGE' then ends, step = '-', -1 end
local rows, size = {}, 0
while #rows < count and size < ${SCAN_CHARS} and from > 0 do
  local some = redis.call(command, KEYS[2], string.format('%.0f-0', from), ends, 'COUNT', math.min(count - #rows, 4))
  if #some == 0 then break end
  for _, row in ipairs(some) do
    local body = row[2][6] or ''
    local does = fits(body)
    rows[#rows + 1] = { row[1], row[2][2] or '', row[2][4] or '', #body, does and 1 or 0, does and #body <= ${SHORT_ROW} and body or false }
    size = size + #body
  end
  from = tonumber(string.match(some[#some][1], '^%d+')) + step
end
return rows`;

/**
 * KEYS meta, log, retired. ARGV epoch, first seq, count. Returns the id of the last row read, and
 * the rows not retired.
 */
export const LIVE = `
${SAME_EPOCH}
${PAGE}
local rows = page(tonumber(ARGV[2]), tonumber(ARGV[3]))
local live = {}
for _, row in ipairs(rows) do
  if not redis.call('ZSCORE', KEYS[3], string.match(row[1], '^%d+')) then live[#live + 1] = row end
end
return { #rows > 0 and rows[#rows][1], live }`;

/** KEYS meta, retired. ARGV epoch, seqs. */
export const RETIRE = `
${SAME_EPOCH}
${NOW}
for i = 2, #ARGV do redis.call('ZADD', KEYS[2], 'NX', now, ARGV[i]) end
return 1`;

/**
 * KEYS meta, log, retired, dedup texts, their order. ARGV epoch, moment, count, milliseconds and
 * rows of dedup. Returns how many were dropped.
 */
export const DROP = `
${SAME_EPOCH}
${NOW}
${FORGET}
local head = redis.call('HGET', KEYS[1], 'head')
forget(KEYS[4], KEYS[5], tonumber(ARGV[3]), head - ARGV[5], now - ARGV[4])
local dropped = 0
for _, seq in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', '(' .. ARGV[2], 'LIMIT', 0, ARGV[3])) do
  if seq ~= head then
    dropped = dropped + redis.call('XDEL', KEYS[2], seq .. '-0')
    redis.call('ZREM', KEYS[3], seq)
  end
end
return dropped`;

/**
 * KEYS presence texts, their ends, the parts of the instance. ARGV instance, text, milliseconds,
 * the end of the parts. Returns their number.
 */
export const PUT_PRESENCE = `
${NOW}
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('ZADD', KEYS[2], now + ARGV[3], ARGV[1])
local ends = tonumber(ARGV[4])
if redis.call('HLEN', KEYS[3]) > ends then
  for _, number in ipairs(redis.call('HKEYS', KEYS[3])) do
    if tonumber(number) >= ends then redis.call('HDEL', KEYS[3], number) end
  end
end
redis.call('PEXPIRE', KEYS[3], ARGV[3])
return redis.call('HLEN', KEYS[3])`;

/** KEYS the parts of an instance. ARGV milliseconds, then numbers and texts. */
export const PUT_PARTS = `
for at = 2, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 1]) end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1`;

/** KEYS the parts of an instance. ARGV numbers. Returns number and text of those that there are. */
export const READ_PARTS = `
local found = {}
for _, number in ipairs(ARGV) do
  local text = redis.call('HGET', KEYS[1], number)
  if text then
    found[#found + 1] = number
    found[#found + 1] = text
  end
end
return found`;

/**
 * KEYS presence texts, their ends. Removes texts that have expired, or have no end; returns
 * instance, text and milliseconds that are left of the others.
 */
export const LIST_PRESENCE = `
${NOW}
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
local found = {}
local all = redis.call('HGETALL', KEYS[1])
for at = 1, #all, 2 do
  local ends = redis.call('ZSCORE', KEYS[2], all[at])
  if ends then
    found[#found + 1] = all[at]
    found[#found + 1] = all[at + 1]
    found[#found + 1] = string.format('%.0f', ends - now)
  else
    redis.call('HDEL', KEYS[1], all[at])
  end
end
return found`;

/** KEYS mail. ARGV text. Mail that nobody has read within a minute is gone. */
export const SEND_MAIL = `
redis.call('XADD', KEYS[1], 'MAXLEN', '64', '*', 't', ARGV[1])
redis.call('PEXPIRE', KEYS[1], 60000)
return 1`;
