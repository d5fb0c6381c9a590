# syntax=docker/dockerfile:1

# The binary is static, so the image holds it, the certificates that https origins are checked with, and nothing else.

FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o /out/swrproxy ./cmd/swrproxy \
 && mkdir -p /out/cache

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/swrproxy /usr/bin/swrproxy
# 65532 is nobody in particular: not root, and not a user of the host.
COPY --from=build --chown=65532:65532 /out/cache /var/cache/swrproxy
USER 65532:65532
EXPOSE 8080
VOLUME /var/cache/swrproxy
# Asks the admin listener at its usual place, admin: { listen: 127.0.0.1:8081 }.
HEALTHCHECK --interval=10s --timeout=4s --start-period=5s CMD ["/usr/bin/swrproxy", "health"]
# The configuration is mounted; in it, listen has to be :8080 for the port to be reachable from outside.
ENTRYPOINT ["/usr/bin/swrproxy"]
CMD ["serve", "--config", "/etc/swrproxy/swrproxy.yaml"]
