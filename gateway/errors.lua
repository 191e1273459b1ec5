-- Gives failed calls OpenAI's error body, and keeps what is gRPC's own out of the requests of HTTP clients.
--
-- The service sends that body in the metadata `openai-error` of the failed call. Where there is none, because
-- the call failed before it came to the service's own code, the transcoder has written what gRPC has to say:
-- {"code":NUMBER,"message":TEXT}. Calls of gRPC clients pass untouched: their HTTP status is 200 even when they
-- fail.

local INTERNAL = { "grpc-status", "grpc-message", "grpc-status-details-bin", "openai-error" }

local function is_grpc(headers)
  return (headers:get("content-type") or ""):find("application/grpc", 1, true) == 1
end

-- The gateway's table has one HTTP status for a client that asks too often and for one that asks too much.
local function told(message, http_status)
  if http_status == 429 and message:find("too large", 1, true) then
    return 413, "invalid_request_error", "request_too_large"
  elseif http_status == 429 then
    return 429, "rate_limit_error", "rate_limit_exceeded"
  elseif http_status >= 500 then
    return http_status, "server_error", "server_error"
  end
  return http_status, "invalid_request_error", "invalid_request_error"
end

function envoy_on_request(handle)
  local headers = handle:headers()
  if is_grpc(headers) then
    return
  end
  -- They would set a deadline, or break the call: metadata of that name must be base64.
  local gone = {}
  for name, _ in pairs(headers) do
    if name:sub(-4) == "-bin" or name:sub(1, 5) == "grpc-" then
      gone[#gone + 1] = name
    end
  end
  for _, name in ipairs(gone) do
    headers:remove(name)
  end
end

function envoy_on_response(handle)
  local headers = handle:headers()
  local http_status = tonumber(headers:get(":status"))
  if http_status == 200 and is_grpc(headers) then
    return
  end
  local body = headers:get("openai-error")
  for _, name in ipairs(INTERNAL) do
    headers:remove(name)
  end
  if body ~= nil then
    headers:replace("content-type", "application/json")
    handle:body(true):setBytes(body)
  elseif http_status ~= 200 and headers:get("content-type") == "application/json" then
    local written = handle:body(true)
    local text = written:getBytes(0, written:length())
    -- A JSON string, left as it is.
    local message = text:match('^{"code":%d+,"message":"(.*)"}$') or text:match('^{"code":%d+,"message":"(.*)","details":')
    if message ~= nil then
      local status, kind, code = told(message, http_status)
      -- What was taken from the handle before the body came cannot be used any more.
      handle:headers():replace(":status", tostring(status))
      handle:body(true):setBytes('{"error":{"message":"' .. message .. '","type":"' .. kind .. '","param":null,"code":"' .. code .. '"}}')
    end
  end
end
