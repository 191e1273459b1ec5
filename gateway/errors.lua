-- Gives failed calls OpenAI's error body.
--
-- The service sends that body in the metadata `openai-error` of the failed call; where there is none, because
-- gRPC itself failed, the body is made from the gRPC message. Calls of gRPC clients pass untouched: their HTTP
-- status is 200 even when they fail.

local INTERNAL = { "grpc-status", "grpc-message", "grpc-status-details-bin", "openai-error" }

local function json_string(text)
  local escaped = text:gsub('[%c"\\]', function(c) return string.format("\\u%04x", c:byte()) end)
  return '"' .. escaped .. '"'
end

local function percent_decoded(text)
  return (text:gsub("%%(%x%x)", function(hex) return string.char(tonumber(hex, 16)) end))
end

local function openai_error(headers, http_status)
  local body = headers:get("openai-error")
  if body ~= nil then
    return body
  end
  local message = percent_decoded(headers:get("grpc-message") or "")
  local kind = http_status >= 500 and "server_error" or "invalid_request_error"
  return '{"error":{"message":' .. json_string(message) .. ',"type":"' .. kind
    .. '","param":null,"code":"' .. kind .. '"}}'
end

function envoy_on_response(handle)
  local headers = handle:headers()
  local http_status = tonumber(headers:get(":status"))
  local content_type = headers:get("content-type") or ""
  if http_status == 200 and content_type:find("application/grpc", 1, true) == 1 then
    return
  end
  if http_status ~= 200 and headers:get("grpc-status") ~= nil then
    headers:replace("content-type", "application/json")
    handle:body(true):setBytes(openai_error(headers, http_status))
  end
  for _, name in ipairs(INTERNAL) do
    headers:remove(name)
  end
end
