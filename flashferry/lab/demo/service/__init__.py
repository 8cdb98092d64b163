"""`flashferry lab service-demo`: a team's evening in small. A lab, a depot and the service, and what two people do."""
