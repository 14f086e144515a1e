; A source in a bent waveguide.
(set! geometry-lattice (make lattice (size 24 24 no-size)))
(set! geometry (list
 (make block (center -3 -5) (size 18 1 infinity) (material (make dielectric (epsilon 12))))
 (make block (center 5 3) (size 1 18 infinity) (material (make dielectric (epsilon 12))))))
(set! sources (list (make source (src (make continuous-src (wavelength 6.7) (width 20)))
 (component Ez) (center -10 -5) (size 0 1))))
(set! pml-layers (list (make pml (thickness 1.0))))
(set! resolution 20)
(run-until 1000000 (at-every 0.25 (lambda () (print "tick " (meep-time) "\n") (force-output))))
