-- Finds the model of a request, and the key that chooses its replica.
--
-- The headers below go to the routes. The JSON of a body is not turned into a tree: its top level is
-- searched for a few members, and strings are passed over by their closing quotes, so that nothing
-- inside a prompt is taken for one of them.

local MODEL_HEADER, STREAM_HEADER = "@MODEL_HEADER@", "@STREAM_HEADER@"
local KEY_HEADER, UNKNOWN_HEADER = "@KEY_HEADER@", "@UNKNOWN_HEADER@"
local NO_MODEL = "@NO_MODEL@"  -- the value of MODEL_HEADER until the model is known
local GRPC_METADATA = "@GRPC_METADATA@"

-- A body of brackets or quotes only would keep this worker from its other requests.
local MOST_MARKS = 500000
-- The key of a prompt is its first KiB. If that is hot (many prompts share a system prompt), it is a
-- longer beginning, up to the end of the first message of the user: later turns have it, too.
local LENGTHS = {1024, 4096, 16384, 65536}
-- Hot: at least a quarter of the last 64 prompts of this length. No longer: less than a sixteenth.
local WINDOW, HOT, COLD = 64, 16, 4

local find, byte, sub, tobit = string.find, string.byte, string.sub, require("bit").tobit
local bxor, rol, tohex = require("bit").bxor, require("bit").rol, require("bit").tohex

local QUOTE, BACKSLASH, COLON, COMMA = 34, 92, 58, 44
local OPEN_BRACE, CLOSE_BRACE, OPEN_BRACKET = 123, 125, 91

-- Reading JSON -------------------------------------------------------------------------------------
-- Positions are of the first and last byte of a value. A broken document ends the search by an error
-- that `search` catches; what was found by then does not count.

local marks_left = 0

local function mark()
  marks_left = marks_left - 1
  if marks_left < 0 then error("too many marks") end
end

local function skip_space(text, at)
  return find(text, "[^ \t\r\n]", at) or error("ends early")
end

-- The closing quote of the string that opens at `at`.
local function string_end(text, at)
  local from = at + 1
  while true do
    mark()
    local quote = find(text, '"', from, true) or error("ends in a string")
    local slash = quote - 1
    while byte(text, slash) == BACKSLASH do slash = slash - 1 end
    if (quote - slash) % 2 == 1 then return quote end
    marks_left = marks_left - (quote - slash) / 64
    from = quote + 1
  end
end

-- The end of the object or array that opens at `at`.
local function nested_end(text, at)
  local depth, from = 0, at
  while true do
    mark()
    local found = find(text, '["{}%[%]]', from) or error("ends in an object or array")
    local char = byte(text, found)
    if char == QUOTE then
      found = string_end(text, found)
    elseif char == OPEN_BRACE or char == OPEN_BRACKET then
      depth = depth + 1
    else
      depth = depth - 1
      if depth == 0 then return found end
    end
    from = found + 1
  end
end

local function value_end(text, at)
  local char = byte(text, at)
  if char == QUOTE then return string_end(text, at) end
  if char == OPEN_BRACE or char == OPEN_BRACKET then return nested_end(text, at) end
  return (find(text, "[,}%] \t\r\n]", at) or error("ends in a value")) - 1
end

-- The members of the object that opens at `at`: found[key] = {first, last} for each key in `found`.
-- Of two members with one key the later counts, as for the engine. Returns the object's end.
local function read_object(text, at, found)
  local from = skip_space(text, at + 1)
  if byte(text, from) == CLOSE_BRACE then return from end
  while true do
    if byte(text, from) ~= QUOTE then error("no key") end
    local key_end = string_end(text, from)
    local colon = skip_space(text, key_end + 1)
    if byte(text, colon) ~= COLON then error("no colon") end
    local first = skip_space(text, colon + 1)
    local last = value_end(text, first)
    -- The longest key that is looked for has 16 letters.
    local key = key_end - from <= 17 and sub(text, from + 1, key_end - 1)
    if key and found[key] then found[key] = {first, last} end
    local after = skip_space(text, last + 1)
    local char = byte(text, after)
    if char == CLOSE_BRACE then return after end
    if char ~= COMMA then error("no comma") end
    from = skip_space(text, after + 1)
  end
end

-- The end of the first message whose role is the user's, in the array at `range`.
local function first_user_end(text, range)
  local at = skip_space(text, range[1] + 1)
  while byte(text, at) == OPEN_BRACE do
    local found = {role = true}
    local last = read_object(text, at, found)
    local role = found.role
    if role ~= true and sub(text, role[1], role[2]) == '"user"' then return last end
    at = skip_space(text, last + 1)
    if byte(text, at) == COMMA then at = skip_space(text, at + 1) end
  end
  return range[2]
end

-- Where the prompt begins, and where its part ends that all turns of a conversation share: in
-- `messages` of Chat Completions and Messages, `input` of Responses, `prompt` of Completions. The
-- `input` of embeddings is no conversation, so a key gains it nothing.
local function prompt_range(text, found, path)
  local input = sub(path, 1, 13) == "/v1/responses" and found.input or true
  for _, list in ipairs({found.messages, input}) do
    if list ~= true and byte(text, list[1]) == OPEN_BRACKET then
      return list[1], first_user_end(text, list)
    end
  end
  for _, prompt in ipairs({found.prompt, input}) do
    if prompt ~= true then return prompt[1], prompt[2] end
  end
  return nil
end

-- Who asks, as it is written: the first of these that is a string and not empty.
local function user_of(text, found)
  local metadata = {user_id = true}  -- of Messages
  if found.metadata ~= true and byte(text, found.metadata[1]) == OPEN_BRACE then
    read_object(text, found.metadata[1], metadata)
  end
  for _, range in ipairs({found.prompt_cache_key, found.user, metadata.user_id}) do
    if range ~= true and byte(text, range[1]) == QUOTE and range[2] > range[1] + 1 then
      return sub(text, range[1], range[2])
    end
  end
  return nil
end

local function search_object(text)
  local start = skip_space(text, 1)
  if byte(text, start) ~= OPEN_BRACE then error("no object") end
  local found = {
    model = true, stream = true, user = true, prompt_cache_key = true, metadata = true,
    messages = true, input = true, prompt = true,
  }
  read_object(text, start, found)
  local request = {text = text}
  for _, key in ipairs({"model", "stream"}) do
    if found[key] ~= true then request[key] = sub(text, found[key][1], found[key][2]) end
  end
  return request, found
end

local function search_key(request, found, path)
  request.user = user_of(request.text, found)
  request.first, request.last = prompt_range(request.text, found, path)
end

-- The members of a body that matter here; nil if it is no JSON object.
local function search(text, path)
  marks_left = MOST_MARKS
  local fine, request, found = pcall(search_object, text)
  if not fine then return nil end
  -- The parts of a key are read a second time, with marks of their own. A request in which they are
  -- not found goes without a key: what is wrong with it, its engine says.
  marks_left = MOST_MARKS
  pcall(search_key, request, found, path)
  return request
end

-- Keys ---------------------------------------------------------------------------------------------

-- Two hashes of 32 bits, carried on from `one` and `two`. Products stay below 2^51, up to which
-- tobit is exact.
local function hash(text, first, last, one, two)
  for at = first, last do
    local char = byte(text, at)
    one = bxor(rol(tobit(one * 524287), 7), char)
    two = bxor(rol(tobit(two * 131071 + 40503), 13), char)
  end
  return one, two
end

local function hashed(text, seed)
  local one, two = hash(seed, 1, #seed, 1, 2)
  one, two = hash(text, 1, #text, one, two)
  return tohex(one) .. tohex(two)
end

-- model -> for each of LENGTHS the last hashes, how often each is among them, and which are hot.
local recent = {}

local function is_hot(model, level, value)
  local levels = recent[model]
  if not levels then
    levels = {}
    recent[model] = levels
  end
  local window = levels[level]
  if not window then
    window = {last = {}, at = 0, count = {}, hot = {}}
    levels[level] = window
  end
  local at = window.at % WINDOW + 1
  local old, count = window.last[at], window.count
  if old then
    local left = count[old] - 1
    count[old] = left > 0 and left or nil
    if left < COLD then window.hot[old] = nil end
  end
  window.last[at], window.at = value, at
  local times = (count[value] or 0) + 1
  count[value] = times
  if times >= HOT then window.hot[value] = true end
  return window.hot[value]
end

-- The key of a prompt: of its shortest beginning that is not hot.
local function prompt_key(model, request)
  local first, last = request.first, request.last
  local one, two = hash(model, 1, #model, 1, 2)
  local from = first
  for level, length in ipairs(LENGTHS) do
    local to = math.min(first + length - 1, last)
    one, two = hash(request.text, from, to, one, two)
    local value = tohex(one) .. tohex(two)
    if to == last or not is_hot(model, level, value) then return value, "prefix" end
    from = to + 1
  end
  one, two = hash(request.text, from, last, one, two)
  return tohex(one) .. tohex(two), "prefix"
end

local function key(handle, model, routing, request)
  local header = routing:get("session_header")
  local session = header and handle:headers():get(header)
  if session and session ~= "" then return hashed(session, model .. "/session"), "session" end
  if not request or routing:get("key") == "session" then return nil end
  if request.user then
    return hashed(request.user, model .. "/user"), "user"
  end
  if routing:get("key") == "prefix" and request.first then return prompt_key(model, request) end
  return nil
end

-- The request --------------------------------------------------------------------------------------

local function is_name(text)
  return #text <= 128 and find(text, "^%w[%w._:/-]*$") ~= nil
end

-- The content of a JSON string; "" for another value.
local function content(value)
  if not value or byte(value, 1) ~= QUOTE then return "" end
  return (sub(value, 2, -2):gsub("\\/", "/"))
end

-- Returns the model's name ("" if there is none) and what the body tells.
local function of_request(handle)
  local headers = handle:headers()
  local path, method = headers:get(":path") or "", headers:get(":method")
  local kind = headers:get("content-type") or ""
  if sub(kind, 1, 16) == "application/grpc" then
    local found = handle:streamInfo():dynamicMetadata():get(GRPC_METADATA)
    for _, values in pairs(found or {}) do return values[1] or "" end
    return ""
  end
  if method == "GET" then return path:match("^/v1/models/([^?]+)") or "" end
  if method ~= "POST" or sub(path, 1, 4) ~= "/v1/" then return "" end
  if sub(kind, 1, 16) ~= "application/json" then return "" end
  local body = handle:body()
  local request = body and search(body:getBytes(0, body:length()), path)
  if not request then return "" end
  return content(request.model), request
end

function envoy_on_request(handle)
  local model, request = of_request(handle)
  if model == "" then return end
  local headers = handle:headers()  -- those from before the body are no longer valid
  if is_name(model) then
    if request and request.stream == "true" then headers:add(STREAM_HEADER, "true") end
    headers:replace(MODEL_HEADER, model)
    handle:clearRouteCache()
    local routing = handle:metadata()
    if routing:get("model") then
      local value, source = key(handle, routing:get("model"), routing, request)
      if value then
        headers:add(KEY_HEADER, value)
        handle:streamInfo():dynamicMetadata():set("slipway", "key", source)
      end
      return
    end
    headers:replace(MODEL_HEADER, NO_MODEL)
  end
  headers:add(UNKNOWN_HEADER, "true")
  handle:clearRouteCache()
end
