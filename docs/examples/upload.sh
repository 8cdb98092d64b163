#!/bin/sh
# Upload an image to the staging service, continued after whatever breaks:
# `URL=https://staging.example.net ./upload.sh IMAGE` in the folder of the image; needs curl 7.82 or later. The file
# `auth` there has one line, 'Authorization: Bearer ffy_...', and is yours alone to read.
FILE=${1:?usage: upload.sh IMAGE, in its folder} SIZE=$(stat -c %s "$FILE") IMAGES=$URL/api/v1/images

ask() {  # Prints the answer. After a failure that may pass it waits and returns 1; 2 is a refusal that stays.
  ANSWER=$(curl -sS --fail-with-body -w '\n%{http_code}' -H @auth "$@") && { printf '%s\n' "$ANSWER"; return; }
  printf '%s\n' "$ANSWER" >&2
  case $1$(printf '%s' "$ANSWER" | tail -n 1) in -X409 | *408 | *429) ;; *4??) return 2 ;; esac
  sleep 5
  return 1
}

until ask --json "{\"name\": \"$FILE\", \"size_bytes\": $SIZE}" "$IMAGES"; do [ $? = 1 ] || exit; done
while true; do
  HEAD=$(ask -I "$IMAGES/$FILE") || { [ $? = 1 ] || exit; continue; }
  OFFSET=$(echo "$HEAD" | tr -d '\r' | awk 'tolower($1) == "upload-offset:" {print $2}')
  [ "$OFFSET" -ge "$SIZE" ] && break
  tail -c +$((OFFSET + 1)) "$FILE" | ask -X PATCH -H "Upload-Offset: $OFFSET" -T - "$IMAGES/$FILE" || [ $? = 1 ] || exit
done
